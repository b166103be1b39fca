/** How the server is started: which program, and why that one. Knows nothing of VS Code. */

/** A way to start the server that somebody named or that was found. */
export interface Candidate {
  readonly kind: "interpreter" | "executable";
  readonly path: string;
  /** Where it comes from, for the user: "the setting torchlint.interpreter". */
  readonly origin: string;
  /** The user named it: if it does not work that is said, and nothing else is taken instead. */
  readonly explicit: boolean;
}

/** What a candidate says of itself when it is run; an error where it cannot be run. */
export type Probe = (candidate: Candidate) => Promise<Probed>;

export type Probed =
  | { readonly python: readonly [number, number]; readonly torchlint: string | undefined }
  | { readonly error: string };

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly origin: string;
  readonly version: string;
}

export type Choice =
  | { readonly launch: Launch }
  | { readonly missing: string; readonly installInto: string | undefined };

const OLDEST_PYTHON: readonly [number, number] = [3, 10];

/** The isolated start: nothing of the workspace or of PYTHONPATH is imported by the server. */
const ISOLATED = ["-I", "-m", "torchlint", "server"] as const;

/** The first candidate in which torchlint is installed, or one sentence on what is missing. */
export async function choose(candidates: readonly Candidate[], probe: Probe): Promise<Choice> {
  const reasons: string[] = [];
  let installInto: string | undefined;
  for (const candidate of candidates) {
    const tried = await tryOne(candidate, probe);
    if ("launch" in tried) {
      return tried;
    }
    reasons.push(tried.missing);
    installInto ??= tried.installInto;
    if (candidate.explicit) {
      break;
    }
  }
  const missing = reasons[0] ?? "No Python interpreter was found.";
  return { missing, installInto };
}

async function tryOne(candidate: Candidate, probe: Probe): Promise<Choice> {
  const named = `${candidate.path} (${candidate.origin})`;
  const missing = (reason: string): Choice => ({ missing: reason, installInto: undefined });
  const probed = await probe(candidate);
  if ("error" in probed) {
    return missing(`${named} cannot be run: ${probed.error}.`);
  }
  const [major, minor] = probed.python;
  if (major < OLDEST_PYTHON[0] || (major === OLDEST_PYTHON[0] && minor < OLDEST_PYTHON[1])) {
    return missing(`${named} is Python ${major}.${minor}; torchlint needs ${OLDEST_PYTHON.join(".")} or newer.`);
  }
  if (probed.torchlint === undefined) {
    return { missing: `torchlint is not installed in ${named}.`, installInto: candidate.path };
  }
  return {
    launch: {
      command: candidate.path,
      args: candidate.kind === "interpreter" ? ISOLATED : ["server"],
      origin: candidate.origin,
      version: probed.torchlint,
    },
  };
}

/** Whether two launches start the same server: then there is no reason to restart. */
export function sameLaunch(first: Launch | undefined, second: Launch | undefined): boolean {
  return (
    first?.command === second?.command &&
    first?.version === second?.version &&
    first?.args.join("\0") === second?.args.join("\0")
  );
}
