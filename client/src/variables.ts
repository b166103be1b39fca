/** Variables in settings that hold paths. */

export interface Variables {
  readonly userHome: string;
  readonly workspaceFolder: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The path with `~`, `${userHome}`, `${workspaceFolder}` and `${env:NAME}` replaced; what is unknown stays. */
export function resolvePath(path: string, variables: Variables): string {
  const resolved = path.trim().replace(/\$\{([^}]+)\}/g, (whole, name: string) => {
    if (name === "userHome") {
      return variables.userHome;
    }
    if (name === "workspaceFolder") {
      return variables.workspaceFolder ?? whole;
    }
    return name.startsWith("env:") ? (variables.environment[name.slice("env:".length)] ?? "") : whole;
  });
  return resolved.replace(/^~(?=$|[/\\])/, variables.userHome);
}
