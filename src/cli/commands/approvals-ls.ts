import { plainText } from '../../base/index.ts';
import type { Approval } from '../../store/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { type Terminal, visible } from '../terminal.ts';
import { withRegistry } from '../thread-access.ts';
import { age } from '../thread-words.ts';

const COLOURS = {
  pending: 'yellow',
  approved: 'green',
  used: 'dim',
  denied: 'red',
  expired: 'dim',
} as const;

function show(approval: Approval, now: number, terminal: Terminal): void {
  const { id, state, kind, thread, asked, shown, expires, who, why } = approval;
  const left = expires === undefined ? '' : `, expires in ${age(expires - now)}`;
  terminal.out(
    `${terminal.paint('bold', id)} ${terminal.paint(COLOURS[state], state)} ${kind}, asked ${age(now - asked)} ago${left}`,
  );
  terminal.out(`  ${terminal.paint('dim', 'thread')} ${visible(thread)}`);
  for (const [name, value] of Object.entries(shown)) {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    terminal.out(`  ${terminal.paint('dim', visible(name))} ${visible(text)}`);
  }
  if (who !== undefined) {
    terminal.out(
      `  ${terminal.paint('dim', 'by')} ${visible(who)}${why ? `: ${visible(plainText(why))}` : ''}`,
    );
  }
}

export const listApprovals: CommandRun = (call) =>
  withRegistry(
    call,
    async ({ store }) => {
      const { options, terminal } = call;
      const thread = asText(options.thread);
      const list = store.approvals.list({
        ...(options.all === true ? {} : { state: 'pending' }),
        ...(thread === undefined ? {} : { thread }),
      });
      return terminal.finish(list, (approvals) => {
        for (const approval of approvals) show(approval, Date.now(), terminal);
        if (approvals.length === 0) terminal.note('nothing waits for an answer');
        else terminal.note('answer with `km approvals approve|deny|answer ID`');
      });
    },
    { nothing: () => [] },
  );
