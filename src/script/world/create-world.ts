// The world of one script, made from the kernel: every act is asked for with the right of whoever
// runs the script, and leaves a row behind.
import { type Clock, type Failure, type Json, type Outcome, ok } from '../../base/index.ts';
import type { Descriptor, Frame, LabelRecords, Value } from '../../flow/index.ts';
import {
  type Authority,
  type Caller,
  type Kernel,
  type Primitive,
  verifierOf,
  writeProjectFile,
} from '../../kernel/index.ts';
import { createJsEngine } from '../js/engine.ts';
import type { ScriptWorld } from '../world.ts';
import { createAccess } from './access.ts';
import { createCode } from './code.ts';
import { createWorldFiles } from './files.ts';
import { createProcesses } from './process.ts';

interface WorldPorts {
  /** Real path of the project. */
  readonly root: string;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Folders no script reads: the user's keys. */
  readonly closed: readonly string[];
  /** True for a person at the command line, never inside a thread. */
  readonly readsAnywhere: boolean;
  readonly labels: LabelRecords;
  authority(): Outcome<Authority>;
  subprocess(): Primitive;
  readonly kernel: Kernel;
  /** Who speaks to the kernel for what is done in this frame. */
  caller(frame: Frame): Caller;
  /** The kind of an item, when there is one of that id. */
  kindOf(id: string): string | undefined;
  readonly model: ScriptWorld['model'];
  /** A fresh name nobody can guess. */
  unguessable(): string;
  audit(operation: string, failure: Failure | undefined): Outcome<null>;
}

function createWriter(ports: WorldPorts, access: ReturnType<typeof createAccess>) {
  // Branches of one script append to the same file one after the other.
  let last: Promise<unknown> = Promise.resolve();
  const write = async (request: {
    path: string;
    text: string;
    append: boolean;
    descriptor: Descriptor;
  }): Promise<Outcome<null>> => {
    const place = access.mayWrite(request.path);
    const written = place.ok
      ? await writeProjectFile(place.output, {
          text: request.text,
          append: request.append,
          willWrite: (sha256, before) =>
            remember(place.output.absolute, sha256, before, request.descriptor),
        })
      : place;
    const kept = ports.audit(
      `write:${place.ok ? place.output.relative : request.path}`,
      written.ok ? undefined : written,
    );
    return written.ok ? kept : written;
  };
  /** What was in the file before is still in it after an append. */
  const remember = (
    absolute: string,
    sha256: string,
    before: string | undefined,
    descriptor: Descriptor,
  ): Outcome<null> => {
    const known = before === undefined ? undefined : ports.labels.recall(absolute, before);
    return ports.labels.remember(absolute, sha256, known ? [known, descriptor] : descriptor);
  };
  return (request: Parameters<ScriptWorld['writeFile']>[0]): Promise<Outcome<null>> => {
    const next = last.then(() => write(request));
    last = next.catch(() => undefined);
    return next;
  };
}

export function createScriptWorld(ports: WorldPorts): ScriptWorld {
  const { root, clock, kernel } = ports;
  const access = createAccess(ports);
  const processes = createProcesses({
    ...ports,
    subprocess: () => ports.subprocess(),
    audit: (operation, failure) => ports.audit(operation, failure),
    verifier() {
      const authority = ports.authority();
      return authority.ok ? ok(verifierOf(authority.output)) : authority;
    },
  });
  const write = createWriter(ports, access);
  return {
    root,
    now: () => new Date(clock.now()),
    ...createWorldFiles(access, ports.labels),
    writeFile: (request) => write(request),
    process: (request) => processes.process(request),
    code: createCode(processes, () => ports.unguessable()),
    js: createJsEngine(),
    tool(id, parameters, frame) {
      const plain: Record<string, Json> = {};
      const values: Record<string, Value> = {};
      for (const [name, value] of parameters) {
        plain[name] = value.data;
        values[name] = value;
      }
      const item_type = ports.kindOf(id) ?? 'tool';
      return kernel.execute(
        { item_type, item_id: id, parameters: plain, values },
        ports.caller(frame),
      );
    },
    help: (action, message, frame) =>
      kernel.help({ action, reason: message.text }, ports.caller(frame)),
    model: (request, frame) => ports.model(request, frame),
  };
}
