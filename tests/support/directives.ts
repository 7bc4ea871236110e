// Creates a small library of other items for tests of directives: hand-written, with the real port types.
import { fail, ok } from '@kernmantle/core/base';
import { type CapabilityInfo, createCapabilityCatalog } from '@kernmantle/core/trust';
import type {
  Directive,
  DirectiveWorld,
} from '../../packages/core/src/items/directive/directive.ts';
import { parseDirective } from '../../packages/core/src/items/directive/parse.ts';

const info = (
  name: string,
  tier: CapabilityInfo['tier'],
  scope: string[] = [],
  implies: string[] = [],
) => ({ name, meaning: `what ${name} allows`, tier, scope, implies }) satisfies CapabilityInfo;

const CAPABILITIES: CapabilityInfo[] = [
  info('fs.read', 'read', ['path']),
  info('fs.write', 'write', ['path'], ['fs.read']),
  info('fs.exec', 'elevated', ['path']),
  info('fs.absolute', 'system'),
  info('tool.execute', 'read', ['id']),
  info('process.spawn', 'elevated'),
  info('net.http', 'elevated', ['host', 'method']),
  info('git.read', 'read'),
  info('git.push', 'elevated'),
  info('mcp.<server>.call', 'write'),
  info('spawn.thread', 'elevated'),
  info('kernel.load', 'read'),
  info('kernel.execute', 'write'),
  info('knowledge.read', 'read'),
  info('thread.read', 'read', ['subtree']),
  info('thread.control', 'elevated', ['subtree']),
  info('registry.read', 'read'),
  info('registry.write', 'system'),
];

const TOOLS: Readonly<Record<string, readonly string[]>> = {
  'shell/bash': ['process.spawn'],
  'fs/read_file': ['fs.read'],
  'fs/write_file': ['fs.write'],
  'http/get': ['net.http'],
  'git/push': ['git.push', 'process.spawn'],
  'test/pytest': ['process.spawn', 'fs.read'],
  'db/supabase_query': ['mcp.supabase'],
  'db/supabase_migrate': ['mcp.supabase'],
  'threads/thread_directive': ['spawn.thread'],
  'threads/safety_harness': ['spawn.thread', 'registry.write'],
};

const hook = (name: string, outputs = '<action type="string">retry|fail</action>'): Directive => {
  const inputs = ['original_directive', 'missing_cap', 'list']
    .map((input) => `<input name="${input}" type="any">Any</input>`)
    .join('');
  const text = `<directive name="${name}" version="1.0.0"><inputs>${inputs}</inputs><outputs>${outputs}</outputs></directive>`;
  return parseDirective(text, `${name}.md`).directive as Directive;
};

const DIRECTIVES = new Map(
  [
    'request_elevated_permissions',
    'warn_approaching_limit',
    'handle_timeout',
    'request_more_budget',
    'handle_turns_exceeded',
  ].map((name) => [name, hook(name)]),
);
DIRECTIVES.set('create_directive', hook('create_directive', '<path type="string" />'));

export function testWorld(parts: Partial<DirectiveWorld> = {}): DirectiveWorld {
  const catalog = createCapabilityCatalog(CAPABILITIES);
  if (!catalog.ok) throw new Error(catalog.error.detail.message);
  return {
    directive: (name) => DIRECTIVES.get(name),
    directiveNames: () => DIRECTIVES.keys(),
    tool(id) {
      const found = Object.keys(TOOLS).filter((full) => full === id || full.endsWith(`/${id}`));
      const [full] = found;
      if (full === undefined) return fail('not_found', `there is no tool \`${id}\``);
      return found.length > 1
        ? fail('ambiguous', `\`${id}\` could be ${found.join(' or ')}`)
        : ok({ id: full, requires: TOOLS[full] as readonly string[] });
    },
    toolIds: () => Object.keys(TOOLS),
    catalog: catalog.output,
    source: 'project',
    signedCore: false,
    currencies: ['USD', 'EUR'],
    tiers: ['fast', 'balanced', 'general', 'reasoning', 'expert', 'orchestrator'],
    ...parts,
  };
}
