// What the MCP server is given: the four verbs on the surface `mcp`, and what lies behind them.
import { fail, type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { PolicyState } from '../flow/index.ts';
import type { Library } from '../items/index.ts';
import type { McpHost } from '../mcp/index.ts';
import { deriveVaultKey } from '../store/index.ts';
import type { KeyFolder } from '../trust/index.ts';
import type { CallOptions } from './kernel.ts';
import type { Verb } from './program.ts';
import { decideApproval } from './steering.ts';
import type { Threads } from './threads.ts';

/** The runtime, as far as clients reach it. */
interface Inside {
  readonly project: string;
  readonly library: Library;
  readonly keys: KeyFolder;
  policies(): PolicyState;
  call(verb: Verb, request: JsonObject, options: CallOptions): Promise<Outcome<Json>>;
  threads(): Promise<Outcome<Threads>>;
}

function keyOf(keys: KeyFolder): Outcome<Uint8Array> {
  const key = keys.tokenKey();
  return key.ok ? ok(deriveVaultKey(key.output.exportPrivate())) : key;
}

export function createMcpHost(
  runtime: Inside,
  version: string,
  onError: (error: Error) => void,
): McpHost {
  const store: McpHost['store'] = async () => {
    const threads = await runtime.threads();
    return threads.ok ? ok(threads.output.store) : threads;
  };
  return {
    version,
    project: runtime.project,
    library: runtime.library,
    policy: () => runtime.policies().policy,
    call: (verb, request, { client, signal, onOutput }) =>
      runtime.call(verb, request, {
        surface: 'mcp',
        name: client.name,
        signal,
        ...(onOutput && { onOutput }),
      }),
    store,
    async decide(approval, { approve, words }, { role, name }) {
      if (role !== 'approve') {
        return fail('permission_denied', 'this client may not decide about approvals');
      }
      const opened = await store();
      if (!opened.ok) return opened;
      const by = { who: name, channel: 'mcp' } as const;
      const decision = { decision: approve ? 'approved' : 'denied', by, why: '' } as const;
      const answer = words === undefined ? {} : { answer: words };
      return await decideApproval(
        opened.output,
        approval,
        { ...decision, ...answer },
        words !== undefined,
      );
    },
    key: () => keyOf(runtime.keys),
    onError,
  };
}
