// What opens every conversation.
import { type Json, type Outcome, ok } from '../base/index.ts';
import { type Descriptor, describe, mergeDescriptors } from '../flow/index.ts';
import type { NewEvent } from '../store/index.ts';
import { packMarks } from './conversation.ts';
import type { Prepared } from './prepare-thread.ts';
import { injection } from './prompt.ts';
import type { World } from './world.ts';

const FROM_USER = describe({ taint: ['src:user'] });

/** The harness itself executes the directive and shows the result. */
export async function openingEvents(
  world: World,
  prepared: Prepared,
  message: string,
  given: Descriptor = FROM_USER,
): Promise<Outcome<NewEvent[]>> {
  const { directive, inputs } = prepared;
  const { request, call } = injection(directive.name, inputs, 'call_directive');
  const ready = await world.kernel.execute(
    { item_type: 'directive', item_id: prepared.item.id, parameters: inputs },
    { surface: 'harness', name: 'harness', frame: world.frame() },
  );
  if (!ready.ok) return ready;
  const marks = packMarks(mergeDescriptors(ready.output.meta.descriptor, given));
  const events: NewEvent[] = [
    {
      type: 'user_message',
      data: { text: request, marks: packMarks(FROM_USER) },
    },
    { type: 'assistant_message', data: { content: [call] as unknown as Json, injected: true } },
    {
      type: 'tool_result',
      data: { call_id: call.id, content: ready.output.data, is_error: false, marks },
    },
  ];
  if (message !== '') {
    events.push({ type: 'user_message', data: { text: message, marks: packMarks(given) } });
  }
  return ok(events);
}
