// Finds the refusal that a call would end with whatever a person answers, before the person is asked: a
// path or host without a right, a program that may not start, and secrets for an unsigned tool. The
// primitive checks again when it runs.
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

/** The right that a built-in function needs for its `path`. Other functions leave out unreadable paths. */
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

/** Returns undefined if no refusal is known. */
export async function foreseeRefusal(
  ports: BodyPorts,
  allowed: AllowedCall,
): Promise<Failure | undefined> {
  const { plan, parameters } = allowed;
  const secrets = refuseSecrets(plan, unsignedLink(plan, ports.signatures));
  if (!secrets.ok) return secrets;
  const primitive = ports.primitives.get(plan.primitive);
  // A host that contains a secret is not checked here.
  const hidden = Object.fromEntries([...plan.env].map((name) => [name, `<${name}>`]));
  const filled = completeConfig(plan, parameters, hidden, primitive?.verbatim);
  if (!filled.ok) return undefined;
  const { signal } = new AbortController();
  const facts = toolFacts(plan, ports.signatures);
  const about = { projectRoot: ports.projectRoot, signal };
  const call = primitiveCall(allowed, filled.output, facts, about);
  return plan.primitive === 'function' ? refusedFile(call) : await primitive?.refuses?.(call);
}
