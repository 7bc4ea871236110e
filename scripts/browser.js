// Prints the path of the browser for the tests of the page. Without a browser it prints nothing and exits with 1.
// This file is plain JavaScript that an old Node can run. `--install` prints nothing and installs Debian's Chromium
// once, if the system allows it (root, apt). `--must` prints instructions if no browser is available afterwards.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The headless shell is first, because it does the same work in a third of the processor time. */
const NAMES = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
  'microsoft-edge',
];
const PLACES = [
  '/usr/lib/chromium/chromium',
  '/snap/bin/chromium',
  '/opt/google/chrome/chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  '/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge',
];

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function find() {
  const own = process.env.KERNMANTLE_BROWSER;
  if (own) return isProgram(own) ? own : undefined;
  const folders = (process.env.PATH || '').split(delimiter).filter((folder) => folder !== '');
  const named = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [...named, ...PLACES].find(isProgram);
}

/** Tries an installation once. A failed installation is not repeated for every run of the tests. */
function install(isWanted) {
  const stamp = fileURLToPath(new URL('../node_modules/.kernmantle-browser', import.meta.url));
  const isRoot = process.getuid !== undefined && process.getuid() === 0;
  if (!isRoot || !isProgram('/usr/bin/apt-get') || (existsSync(stamp) && !isWanted)) return;
  process.stderr.write('installing Chromium for the tests of the page (once) …\n');
  const apt = (...args) =>
    spawnSync('apt-get', args, {
      stdio: 'ignore',
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    }).status === 0;
  apt('update', '-q');
  const isInstalled = (name) => apt('install', '-qy', '--no-install-recommends', name);
  if (isInstalled('chromium-headless-shell') || isInstalled('chromium')) return;
  try {
    writeFileSync(stamp, 'no Chromium could be installed\n');
  } catch {
    // The folder for the mark is missing, so the next run tries again.
  }
}

const [isInstall, isMust] = ['--install', '--must'].map((word) => process.argv.includes(word));
// A browser that the user names must exist. A missing one is an error, not a reason for an installation.
if (isInstall && !find() && !process.env.KERNMANTLE_BROWSER) install(isMust);
const found = find();
if (found) process.stdout.write(isInstall ? '' : `${found}\n`);
else if (isMust) {
  process.stderr.write(
    'no browser: the tests of the page need Chromium. Install it (`apt-get install chromium`), or say ' +
      'where it is with KERNMANTLE_BROWSER=/path/to/chromium\n',
  );
}
if (!found && (isMust || !isInstall)) process.exitCode = 1;
