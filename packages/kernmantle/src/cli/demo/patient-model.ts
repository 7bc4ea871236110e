// Simulates the model of `km demo --web`. It chooses its reply by the length of the conversation, so a
// run gets the same replies after a restart, a resume or a retry. It answers slowly, so that a person
// can watch. It first answers a message of a person.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { listAt, type Outcome, ok, textAt } from '@kernmantle/core/base';
import { parseScript, type ScriptedReply, type ScriptedRequest } from '@kernmantle/core/llm';
import { BUNDLE } from '@kernmantle/core/runtime';

const PACE = { delay_ms: 900, pace_ms: 30, piece: 5 } as const;

function readReplies(name: string): Outcome<ScriptedReply[]> {
  return parseScript(readFileSync(join(BUNDLE, name), 'utf8'));
}

/** Returns the replies of `km demo`, each for its number of the turn. */
const byTurn = (replies: readonly ScriptedReply[], directive: string): ScriptedReply[] =>
  replies.map((reply, index) => ({
    ...reply,
    match: { text: `run directive ${directive}`, assistant_messages: index + 1 },
  }));

const fits = ({ match }: ScriptedReply, { assistant_messages, body }: ScriptedRequest): boolean =>
  match === undefined ||
  ((match.assistant_messages ?? assistant_messages) === assistant_messages &&
    JSON.stringify(body).includes(match.text ?? ''));

/** Returns the person's message since the last reply. Tool results and texts of the harness do not count. */
function messageSince({ body, assistant_messages }: ScriptedRequest): string {
  if (assistant_messages < 2) return '';
  const message = listAt(listAt(body, 'messages').at(-1), 'content')
    .filter((block) => textAt(block, 'type') === 'text')
    .map((block) => textAt(block, 'text'))
    .filter((text) => !text.startsWith('['));
  return message.at(-1) ?? '';
}

export function patientModel(): Outcome<(request: ScriptedRequest) => ScriptedReply | undefined> {
  const own = readReplies('demo-page-model.yaml');
  if (!own.ok) return own;
  const todos = readReplies('demo-model.yaml');
  if (!todos.ok) return todos;
  const mail = readReplies('demo-mail-model.yaml');
  if (!mail.ok) return mail;
  const replies = [
    ...byTurn(todos.output, 'chase_todos'),
    ...byTurn(mail.output, 'answer_urgent'),
    ...own.output,
  ];
  return ok((request) => {
    const reply = replies.find((one) => fits(one, request));
    const message = messageSince(request);
    if (!reply || message === '' || reply.text?.startsWith('{'))
      return reply && { ...reply, ...PACE };
    const reaction = `You say “${message.slice(0, 80)}”: I keep it in mind.`;
    return { ...reply, ...PACE, text: [reaction, reply.text].filter(Boolean).join(' ') };
  });
}
