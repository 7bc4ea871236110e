// Whether a directive can be a thread of its own.
import type { Directive } from './directive-value.ts';

/** What a thread needs and this directive lacks; lacking it is not a mistake. */
export function canSpawn(
  directive: Pick<Directive, 'limits' | 'permissions' | 'model' | 'process'>,
): { can_spawn_thread: boolean; missing: string[] } {
  const missing: string[] = [];
  if (!directive.limits) missing.push('limits');
  if (!directive.permissions) missing.push('permissions');
  if (!directive.model && !directive.process.script) missing.push('model');
  return { can_spawn_thread: missing.length === 0, missing };
}
