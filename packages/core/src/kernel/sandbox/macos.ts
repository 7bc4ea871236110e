// Makes the profile of the macOS sandbox, for `sandbox-exec`. Later rules win over earlier ones.
import type { PlaceAccess } from './places.ts';
import type { ProjectView } from './project.ts';

interface SeatbeltPlan {
  projectRoot: string;
  view: ProjectView;
  /** Readable folders outside of the system. */
  readable: readonly string[];
  /** Folders that stay readable if a folder around them is hidden. */
  always: readonly string[];
  /** The person's home folder, closed except for listed files. */
  home: string;
  /** Private folder for temporary files and as `HOME`. */
  temp: string;
  network: boolean;
}

const quoted = (path: string): string => `"${path.replace(/[\\"]/g, '\\$&')}"`;
const subpath = (path: string): string => `(subpath ${quoted(path)})`;

export function seatbeltProfile(plan: SeatbeltPlan): string {
  const { projectRoot, view } = plan;
  const place = (access: PlaceAccess, path: string): string[] => [
    `(${access === 'none' ? 'deny' : 'allow'} file-read* ${subpath(path)})`,
    `(${access === 'write' ? 'allow' : 'deny'} file-write* ${subpath(path)})`,
  ];
  const lines = [
    '(version 1)',
    '(allow default)',
    ...(plan.network ? [] : ['(deny network*)']),
    '(deny file-write*)',
    '(allow file-write* (literal "/dev/null") (literal "/dev/tty") (regex #"^/dev/fd/"))',
    `(deny file-read* ${subpath(plan.home)})`,
    `(allow file-read* ${[plan.temp, ...plan.readable].map(subpath).join(' ')})`,
    `(allow file-read-metadata ${subpath(plan.home)})`,
    `(allow file-write* ${subpath(plan.temp)})`,
    ...place(view.root, projectRoot),
    ...view.places.flatMap(({ path, access }) => place(access, `${projectRoot}/${path}`)),
    `(deny file-write* ${subpath(`${projectRoot}/.ai`)})`,
    ...view.hidden.map((path) => `(deny file-read* file-write* ${subpath(path)})`),
    // The folders of the tool stay readable, wherever they are.
    ...plan.always.map((path) => `(allow file-read* ${subpath(path)})`),
  ];
  return lines.join('\n');
}
