// Runs one script of bash in the sandbox, for tests that need a separate process around it.
// Arguments: kind, project, script. Prints the outcome as one line of JSON.
import { fail, ok } from '@kernmantle/core/base';
import { createProcessPrimitive } from '../../packages/core/src/kernel/process/subprocess.ts';
import { probeSandbox } from '../../packages/core/src/kernel/sandbox/probe.ts';
import { callOf, makeProject, portsOf, shell } from './processes.ts';

const [kind, root = '', script = ''] = process.argv.slice(2);
const project = makeProject();
const report = await probeSandbox({ kinds: [kind === 'bwrap' ? 'bwrap' : 'util-linux'] });
const { ASIDE: aside } = process.env;
const ports = portsOf({ ...project, root }, report, aside === undefined ? {} : { aside });
const primitive = createProcessPrimitive(ports);
const call = callOf({ ...project, root }, shell(script), {
  verify: ({ capability, scope }) =>
    capability === 'fs.write' && scope?.path?.startsWith('closed')
      ? fail('permission_denied', 'closed')
      : ok(null),
});
process.stdout.write(`${JSON.stringify(await primitive.run(call))}\n`);
project.remove();
