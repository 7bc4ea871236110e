// Bar above a view whose data is not live: the time of the loss, the next retry, and a remedy. The
// view keeps its last data.
import { clockTime, seconds } from '../../model/format.ts';
import { Button } from './button.tsx';
import { Command } from './copy.tsx';
import { now } from './figures.tsx';
import { Icon } from './icons.tsx';

/** `retry` connects immediately. The bar is empty while the connection is live. */
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
        <span>Your session has ended. Print a new link in the terminal and open it.</span>
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
      <Button text="Retry now" onClick={retry} />
    </section>
  );
}
