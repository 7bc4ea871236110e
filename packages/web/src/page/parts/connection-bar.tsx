// Bar above a view whose data is not live: since when, the next retry, and what a person can do. The
// view keeps its last data.
import { clockTime, seconds } from '../../model/format.ts';
import { Button } from './button.tsx';
import { Command } from './copy.tsx';
import { now } from './figures.tsx';
import { Icon } from './icons.tsx';

/** `retry` tries at once. Nothing is drawn while all is well. */
export function ConnectionBar(props: {
  state: 'connecting' | 'live' | 'lost' | 'over';
  since: number;
  retryAt?: number;
  retry: () => void;
}) {
  const { state, since, retryAt, retry } = props;
  if (state === 'over') {
    return (
      <section class="conn-bar" aria-label="Session" role="status">
        <Icon name="warn" />
        <span>
          This session is over. Nothing is lost: a new link from the terminal opens it again.
        </span>
        <Command text="km web link" />
      </section>
    );
  }
  if (state !== 'lost') return null;
  const secondsLeft = retryAt === undefined ? 0 : Math.ceil((retryAt - now.value) / 1000);
  return (
    <section class="conn-bar" aria-label="Connection" role="status">
      <Icon name="warn" />
      <span>
        Not connected since <span class="mono">{clockTime(since)}</span>,{' '}
        <span aria-hidden="true">
          {secondsLeft > 0 ? `trying again in ${seconds(secondsLeft)}` : 'trying again'}
        </span>
      </span>
      <Button text="Now" onClick={retry} />
    </section>
  );
}
