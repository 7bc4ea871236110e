// What a call would be refused for whatever a person answers, looked at before one is asked: a path or a host
// that no right covers, a program that may not start, and secrets for a tool that nobody signed. The primitive looks again when it acts.
import { type Failure, type Json, plainText } from '../../base/index.ts';
import { placeFor } from '../file-tools/read-file.ts';
import { protectedPlace } from '../file-tools/write-file.ts';
import type { PrimitiveCall } from '../primitive.ts';
import {
  type AllowedCall,
  type BodyPorts,
  completeConfig,
  primitiveCall,
} from './run-primitive.ts';
import { refuseSecrets, toolFacts, unsignedLink } from './tool-rights.ts';

/** The right that a built-in function takes for its `path`; others leave out what may not be read. */
const FILE_RIGHTS: ReadonlyMap<Json | undefined, 'fs.read' | 'fs.write'> = new Map([
  ['read_file', 'fs.read'],
  ['write_file', 'fs.write'],
  ['edit_file', 'fs.write'],
]);

function refusedFile(call: PrimitiveCall): Failure | undefined {
  const capability = FILE_RIGHTS.get(call.config.function);
  if (capability === undefined) return undefined;
  const place = placeFor(call, plainText(call.parameters.path ?? ''), capability);
  if (!place.ok) return place;
  return capability === 'fs.write' ? protectedPlace(place.output.relative) : undefined;
}

/** Undefined: nothing is known that would refuse it. */
export async function foreseeRefusal(
  ports: BodyPorts,
  allowed: AllowedCall,
): Promise<Failure | undefined> {
  const { plan, parameters } = allowed;
  const secrets = refuseSecrets(plan, unsignedLink(plan, ports.signatures));
  if (!secrets.ok) return secrets;
  const primitive = ports.primitives.get(plan.primitive);
  // A host that is made of a secret is not looked at here.
  const hidden = Object.fromEntries([...plan.env].map((name) => [name, `<${name}>`]));
  const filled = completeConfig(plan, parameters, hidden, primitive?.verbatim);
  if (!filled.ok) return undefined;
  const { signal } = new AbortController();
  const facts = toolFacts(plan, ports.signatures);
  const about = { projectRoot: ports.projectRoot, signal };
  const call = primitiveCall(allowed, filled.output, facts, about);
  return plan.primitive === 'function' ? refusedFile(call) : await primitive?.refuses?.(call);
}
