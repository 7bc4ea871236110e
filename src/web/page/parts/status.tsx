// The state of a thread as shape, word and colour. Six tones; `completed` with refusals stays completed
// and says so beside it.
import type { Tone } from '../../model/api.ts';
import { count } from '../../model/format.ts';
import { Icon, type IconName } from './icons.tsx';

const TONES: Readonly<Record<string, Tone>> = {
  spawning: 'run',
  running: 'run',
  terminating: 'run',
  needs_input: 'you',
  completed: 'ok',
  limit: 'limit',
  failed: 'bad',
  denied: 'bad',
  aborted: 'bad',
  killed: 'bad',
};
const ICONS: Readonly<Record<Tone, IconName>> = {
  plain: 'dash',
  dim: 'dash',
  run: 'run',
  you: 'ask',
  ok: 'ok',
  bad: 'no',
  limit: 'stop',
  idle: 'pause',
};

/** A thread that waits is `you` when a person has to answer, else it is idle. */
export function statusTone(status: string, waitsForPerson = false): Tone {
  if (waitsForPerson) return 'you';
  return TONES[status] ?? 'idle';
}

export const toneIcon = (tone: Tone): IconName => ICONS[tone];

export const statusWord = (status: string, waitsForPerson = false): string =>
  waitsForPerson ? 'waiting for you' : status.replaceAll('_', ' ');

/** `denied`: how many calls were refused; shown beside the state, never instead of it. */
export function StatusPill(props: { status: string; waitsForPerson?: boolean; denied?: number }) {
  const { status, waitsForPerson = false, denied = 0 } = props;
  const tone = statusTone(status, waitsForPerson);
  return (
    <>
      <span class={`pill ${tone}`}>
        <Icon name={toneIcon(tone)} />
        {statusWord(status, waitsForPerson)}
      </span>
      {denied > 0 ? <DeniedCount denied={denied} /> : null}
    </>
  );
}

export const DeniedCount = ({ denied }: { denied: number }) => (
  <span class="bad denied">{count(denied)} denied</span>
);
