/** Restarts one after the other: one under way, at most one waiting. */

export class Restarts {
  private running: Promise<void> | undefined;
  private waiting: Promise<void> | undefined;

  public constructor(private readonly restart: () => Promise<void>) {}

  /** Asks for a restart; resolves when one that began after this call is finished. */
  public request(): Promise<void> {
    if (this.running === undefined) {
      return this.begin();
    }
    this.waiting ??= this.running.then(
      () => this.begin(),
      () => this.begin(),
    );
    return this.waiting;
  }

  private begin(): Promise<void> {
    this.waiting = undefined;
    this.running = this.restart().finally(() => {
      this.running = undefined;
    });
    return this.running;
  }
}
