// Status of a thread as shape, word and colour. Denied and failed calls are counted beside it. A
// completed thread with such calls is not green.
import type { ListedRun, Tone } from '../../model/api.ts';
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

type Troubles = Partial<Pick<ListedRun, 'denied' | 'failed'>>;
const hasTrouble = ({ denied = 0, failed = 0 }: Troubles): boolean => denied + failed > 0;

/** A waiting thread has the tone `you` if a person must answer, else `idle`. */
export function statusTone(status: string, waitsForPerson = false, troubles: Troubles = {}): Tone {
  if (waitsForPerson) return 'you';
  const tone = TONES[status] ?? 'idle';
  return tone === 'ok' && hasTrouble(troubles) ? 'idle' : tone;
}

export const toneIcon = (tone: Tone): IconName => ICONS[tone];

export const statusIcon = (
  status: string,
  waitsForPerson: boolean,
  troubles: Troubles,
): IconName =>
  status === 'completed' && hasTrouble(troubles)
    ? 'warn'
    : toneIcon(statusTone(status, waitsForPerson));

export const statusWord = (status: string, waitsForPerson = false): string =>
  waitsForPerson ? 'waits for you' : status.replaceAll('_', ' ');

export function StatusPill(props: { status: string; waitsForPerson?: boolean } & Troubles) {
  const { status, waitsForPerson = false } = props;
  const tone = statusTone(status, waitsForPerson, props);
  return (
    <>
      <span class={`pill ${tone}`}>
        <Icon name={statusIcon(status, waitsForPerson, props)} />
        {statusWord(status, waitsForPerson)}
      </span>
      <TroubleCount {...props} />
    </>
  );
}

/** Returns `2 denied, 1 failed`. Empty without such calls. */
export const troubleWords = ({ denied = 0, failed = 0 }: Troubles): string =>
  [denied > 0 ? `${count(denied)} denied` : '', failed > 0 ? `${count(failed)} failed` : '']
    .filter(Boolean)
    .join(', ');

/** Numbers of denied and of failed calls. They are beside the state and do not replace it. */
export const TroubleCount = (troubles: Troubles) =>
  hasTrouble(troubles) ? <span class="bad trouble">{troubleWords(troubles)}</span> : null;
