// Implements `km web`: serves the page of a project, prints links to it and manages its sessions.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { compact, EXIT, errnoOf, fail, type Outcome, ok } from '@kernmantle/core/base';
import { findPerson, noted, personAuditRow, type Runtime } from '@kernmantle/core/runtime';
import { linkTo, openRunningServers, openSessions, startWeb } from '@kernmantle/web';
import { asText, type CommandCall, type Ending, version } from '../../command.ts';
import { commandActor, inProject } from '../../project.ts';
import { interruptible, type Terminal, visible } from '../../terminal/terminal.ts';
import { aborted, createErrorPrinter, exitWithin, portOf } from '../server-options.ts';

function readPem(cwd: string, option: string, file: string): Outcome<string> {
  try {
    return ok(readFileSync(resolve(cwd, file), 'utf8'));
  } catch (error) {
    return fail('usage', `\`--${option}\`: cannot read \`${file}\`: ${errnoOf(error)}`);
  }
}

/** Reads the certificate and the key. Both or neither must be set. */
function tlsOf({ options, terminal: { cwd } }: CommandCall) {
  const [certFile, keyFile] = [asText(options.tlsCert), asText(options.tlsKey)];
  if (certFile === undefined && keyFile === undefined) return ok(undefined);
  if (certFile === undefined || keyFile === undefined) {
    return fail('usage', '`--tls-cert` and `--tls-key` must be used together');
  }
  const cert = readPem(cwd, 'tls-cert', certFile);
  if (!cert.ok) return cert;
  const key = readPem(cwd, 'tls-key', keyFile);
  return key.ok ? ok({ cert: cert.output, key: key.output }) : key;
}

type ServeOptions = Omit<Parameters<typeof startWeb>[1], 'version' | 'onError'> & {
  /** Description of the served project. Absent: the path of the project. */
  readonly about?: string;
  /** Command that prints another link. Absent: `km web link`. */
  readonly link?: string;
};

/** Serves the page until the user interrupts it. Prints the address. */
export async function servePage(
  runtime: Runtime,
  terminal: Terminal,
  { about, link: another = 'km web link', ...settings }: ServeOptions,
): Promise<Ending> {
  return await interruptible(async (interrupted) => {
    const started = await startWeb(runtime, {
      env: terminal.env,
      ...settings,
      version: version(),
      onError: createErrorPrinter(terminal.note, 'web'),
    });
    if (!started.ok) return started;
    const { url, link, close } = started.output;
    const address = link();
    if (address.ok) {
      const { project } = runtime;
      if (terminal.json) terminal.out(JSON.stringify(ok({ project, url, link: address.output })));
      terminal.note(
        `kernmantle serves ${about ?? `the page of ${project}`} at ${url}; Ctrl-C stops it`,
      );
      terminal.note('open this link; it works once, for two minutes:');
      terminal.note(`  ${address.output}`);
      const more = about ? '' : '; give others access with `km web token add`';
      terminal.note(`print another link with \`${another}\`${more}`);
      await aborted(interrupted);
    }
    await close();
    exitWithin();
    return address.ok ? EXIT.done : address;
  });
}

export const serveWeb = inProject(async (runtime, call) => {
  const { options, terminal } = call;
  const port = portOf(options);
  if (!port.ok) return port;
  const tls = tlsOf(call);
  if (!tls.ok) return tls;
  return await servePage(runtime, terminal, {
    ...compact({ port: port.output, host: asText(options.host), tls: tls.output }),
    ...compact({ behind: asText(options.behind) }),
  });
});

export const printLink = inProject(async (runtime, call) => {
  const { options, terminal } = call;
  const port = portOf(options);
  if (!port.ok) return port;
  const own = openRunningServers(runtime.home)
    .list()
    .filter(({ project }) => project === runtime.project)
    .filter((page) => port.output === undefined || page.port === port.output);
  const [page] = own;
  if (!page) {
    const hint = 'start it with `km web` in another terminal';
    return fail('not_found', 'the page of this project is not being served', { hint });
  }
  if (own.length > 1) {
    const ports = own.map((one) => one.port);
    const message = `the page is served on ${own.length} ports: ${ports.join(', ')}`;
    return fail('ambiguous', message, { ports, hint: 'choose one with `--port`' });
  }
  const who = findPerson(terminal.env);
  const address = openSessions(runtime).addLink(page.port, { who, role: 'approve' });
  const done = noted(
    runtime,
    personAuditRow(commandActor(call), 'session:link', page.url),
    address,
  );
  return terminal.finish(
    done.ok ? ok({ link: linkTo(page.url, done.output) }) : done,
    ({ link }) => {
      terminal.note('open this link; it works once, for two minutes:');
      terminal.out(link);
    },
  );
});

export const listSessions = inProject(async (runtime, { terminal }) => {
  return terminal.finish(openSessions(runtime).list(), (sessions) => {
    for (const { id, who, role, port, created, expires } of sessions) {
      const [since, until] = [created, expires].map((time) => new Date(time).toISOString());
      const times = `port ${port}, since ${since?.slice(0, 16)}, until ${until?.slice(0, 16)}`;
      terminal.out(`${id} ${role} ${visible(who)} ${terminal.paint('dim', times)}`);
    }
    if (sessions.length === 0) terminal.note('no sessions for the page of this project');
  });
});

export const endSession = inProject(async (runtime, call) => {
  const { args, terminal } = call;
  const id = asText(args[0]) ?? '';
  const row = personAuditRow(commandActor(call), 'session:end', id);
  const ended = noted(runtime, row, openSessions(runtime).end(id));
  return terminal.finish(ended.ok ? ok({ id }) : ended, () =>
    terminal.out(`ended ${id}; its connections are closed`),
  );
});
