// Creates a thread as the origins of values see it: its messages, without any approval.
import { fail, type Json, ok } from '@kernmantle/core/base';
import { type Descriptor, describe, type ResultFacts } from '@kernmantle/core/flow';
import { Conversation } from '../../packages/core/src/harness/thread/conversation.ts';
import type { Thread } from '../../packages/core/src/harness/thread/thread.ts';

export interface ToldResult {
  readonly content: Json;
  readonly marks?: Descriptor;
  readonly facts?: ResultFacts;
}

const STRANGER = describe({ labels: ['untrusted'] });

/** Returns a thread that received these texts in order and then read an untrusted text. */
export function heardThread(
  texts: readonly string[],
  results: readonly ToldResult[],
  stranger: Json = 'anything',
): Thread {
  const conversation = new Conversation();
  for (const text of texts) conversation.user(text, describe({ taint: ['src:user'] }));
  for (const [index, { content, marks = describe({}), facts }] of results.entries()) {
    const id = `call_${index}`;
    // There is no such tool, so the marks are those of its facts.
    conversation.assistant([{ type: 'tool_call', id, name: 'search', arguments: {} }]);
    conversation.result(id, { content, marks, isError: false, facts });
  }
  conversation.assistant([{ type: 'tool_call', id: 'last', name: 'search', arguments: {} }]);
  conversation.result('last', { content: stranger, marks: STRANGER, isError: false });
  const library = {
    chain: () => fail('not_found', 'no such tool'),
    find: (_kind: string, id: string) =>
      id === 'notes' ? ok({}) : fail('not_found', 'no such item'),
    capabilities: () => ({ catalog: new Map() }),
  };
  const thread = {
    talk: { conversation, opening: [] },
    ports: { library, store: { approvals: () => Promise.resolve(ok([])) } },
    place: { id: 't', chain: ['t'], item: { signature: { state: 'unsigned' } }, directive: {} },
    rights: { approved: { takeable: () => [] } },
    control: { intents: new Map(), currentCall: '' },
  };
  return thread as unknown as Thread;
}
