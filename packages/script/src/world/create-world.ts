// Creates the world of a script from the kernel. Each access needs the rights of the caller and is written
// to the audit.
import type { Failure, Outcome } from '@kernmantle/core/base';
import { previewProjectWrite, refusesWriting, writeProjectFile } from '@kernmantle/core/kernel';
import { createJsEngine } from '../js/engine.ts';
import type { ScriptWorld } from '../world.ts';
import { createAccess, type ResolvedFile, type WorldPorts } from './access.ts';
import { createCode } from './code.ts';
import { createWorldFiles, nearestReal } from './files.ts';
import { createProcesses } from './process.ts';

function createWriter(ports: WorldPorts, access: ReturnType<typeof createAccess>) {
  // Concurrent branches append to a file one after the other.
  let last: Promise<unknown> = Promise.resolve();
  type Request = Parameters<ScriptWorld['writeFile']>[0];
  const writeTo = (place: ResolvedFile, { text, append, descriptor, approved }: Request) =>
    writeProjectFile(place, {
      text,
      append,
      approved,
      willWrite(sha256, before) {
        // After an append the file still contains its old content, so it keeps the old marks.
        const oldMarks =
          before === undefined ? undefined : ports.labels.recall(place.absolute, before);
        const marks = oldMarks ? [oldMarks, descriptor] : descriptor;
        const stored = ports.labels.remember(place.absolute, sha256, marks);
        const { shared } = ports.labels;
        return stored.ok && shared ? shared.keep() : stored;
      },
    });
  const write = async (request: Request): Promise<Outcome<null>> => {
    const place = access.mayWrite(request.path);
    const named = place.ok
      ? ports.labels.rememberName(place.output.absolute, request.named)
      : place;
    const written =
      place.ok && named.ok ? await writeTo(place.output, request) : (named as Failure);
    const name = place.ok ? place.output.relative : request.path;
    const auditRow = ports.audit(`write:${name}`, written.ok ? undefined : written);
    return written.ok ? auditRow : written;
  };
  return (request: Request): Promise<Outcome<null>> => {
    const next = last.then(() => write(request));
    last = next.catch(() => undefined);
    return next;
  };
}

export function createScriptWorld(ports: WorldPorts): ScriptWorld {
  const { root, clock, kernel } = ports;
  const access = createAccess(ports);
  const processes = createProcesses(ports);
  return {
    root,
    home: ports.personsHome,
    dangers: () => ports.dangers(),
    realPath: nearestReal,
    now: () => new Date(clock.now()),
    ...createWorldFiles(access, ports.labels),
    writeFile: createWriter(ports, access),
    async refusesWrite(path) {
      const place = access.mayWrite(path);
      return place.ok ? await refusesWriting(place.output) : place;
    },
    previewWrite: (path, write) => previewProjectWrite(root, ports.labels, path, write),
    process: (request, frame) => processes.process(request, frame),
    code: createCode(processes, () => ports.unguessable()),
    js: createJsEngine(),
    tool(id, parameters, frame) {
      const values = Object.fromEntries(parameters);
      const plain = Object.fromEntries([...parameters].map(([name, { data }]) => [name, data]));
      const item_type = ports.kindOf(id) ?? 'tool';
      const request = { item_type, item_id: id, parameters: plain, values };
      return kernel.execute(request, ports.caller(frame));
    },
    connector: (name, frame) => ports.connector(name, frame),
    reads: (id) => ports.readsOf(id),
    previewTool: (id, inputs) => ports.previewTool(id, inputs),
    help: (action, message, frame) =>
      // For the action `guidance` the message is a topic; for others it is a reason.
      kernel.help(
        action === 'guidance' ? { action, topic: message.text } : { action, reason: message.text },
        ports.caller(frame),
      ),
    model: (request, frame) => ports.model(request, frame),
  };
}
