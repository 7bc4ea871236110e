// The commands below `threads` and `approvals`, as data.
import type { CommandSpec } from './command.ts';
import { PROJECT } from './project-option.ts';

const THREAD = ['[thread]', 'its id, or `last` (default)'] as const;
const ONE_THREAD = ['<thread>', 'its id, or `last`'] as const;
const signalling = (name: 'pause' | 'inject' | 'interrupt' | 'stop' | 'kill') => async () =>
  (await import('./commands/threads-signal.ts'))[name];

export const THREADS: readonly CommandSpec[] = [
  {
    name: 'ls',
    summary: 'list threads, newest first',
    options: [
      ['--status <list>', 'only these, comma separated'],
      ['--directive <id>', 'only of this directive'],
      ['--within <thread>', 'only this one and those below it'],
      ['--order <by>', '`created` (default) or `updated`'],
      ['--hooks', 'also threads that ran for a hook'],
      ['-n, --limit <count>', 'how many at most (default 20)'],
      ['--cursor <cursor>', 'go on where the last answer ended'],
      PROJECT,
    ],
    load: async () => (await import('./commands/threads-ls.ts')).listThreads,
  },
  {
    name: 'show',
    summary: 'what was said, done, refused and decided, and what it cost',
    args: [THREAD],
    options: [['--full', 'nothing shortened'], PROJECT],
    load: async () => (await import('./commands/threads-show.ts')).run,
  },
  {
    name: 'tree',
    summary: 'the whole tree a thread belongs to, hooks included',
    args: [THREAD],
    options: [PROJECT],
    load: async () => (await import('./commands/threads-tree.ts')).showTree,
  },
  {
    name: 'tail',
    summary: 'the latest events of a thread',
    args: [THREAD],
    options: [
      ['-f, --follow', 'and those that come, until it ends'],
      ['-n, --limit <count>', 'how many at first (default 20)'],
      PROJECT,
    ],
    load: async () => (await import('./commands/threads-tail.ts')).tailThread,
  },
  {
    name: 'top',
    summary: 'who is at work now, live',
    options: [PROJECT],
    load: async () => (await import('./commands/threads-top.ts')).watchAll,
  },
  {
    name: 'pause',
    summary: 'stop at the next step until it is resumed',
    args: [ONE_THREAD],
    options: [['--reason <text>', 'why, for the record'], PROJECT],
    load: signalling('pause'),
  },
  {
    name: 'resume',
    summary: 'go on with a paused or interrupted thread, in this process',
    args: [ONE_THREAD],
    options: [
      ['-m, --message <text>', 'what it is told first'],
      ['--from <snapshot>', 'go back to this snapshot first: its number, or `last`'],
      PROJECT,
    ],
    load: async () => (await import('./commands/threads-resume.ts')).run,
  },
  {
    name: 'inject',
    summary: 'say something to the model, before its next turn',
    args: [ONE_THREAD, ['<words...>', 'what to say']],
    options: [['--role <role>', '`user` (default) or `system`'], PROJECT],
    load: signalling('inject'),
  },
  {
    name: 'interrupt',
    summary: 'break off the reply that is coming, and say something instead',
    args: [ONE_THREAD, ['[words...]', 'what to say']],
    options: [PROJECT],
    load: signalling('interrupt'),
  },
  {
    name: 'stop',
    summary: 'end a thread and those below it, at their next step',
    args: [ONE_THREAD],
    options: [PROJECT],
    load: signalling('stop'),
  },
  {
    name: 'kill',
    summary: 'end it even when it does not answer',
    args: [ONE_THREAD],
    options: [PROJECT],
    load: signalling('kill'),
  },
  {
    name: 'wait',
    summary: 'wait until threads have ended or need somebody',
    args: [['<threads...>', 'their ids']],
    options: [['--timeout <seconds>', 'at most so long'], PROJECT],
    load: async () => (await import('./commands/threads-wait.ts')).waitForThreads,
  },
  {
    name: 'prune',
    summary: 'remove old threads; budgets and audit stay',
    options: [
      ['--older-than <age>', 'such as 30d, 12h or 2w (default: the policy’s `retention`)'],
      ['--keep-failed', 'keep trees in which a thread failed'],
      PROJECT,
    ],
    load: async () => (await import('./commands/threads-prune.ts')).run,
  },
];

const APPROVAL = ['<approval>', 'its id, as `km approvals ls` shows it'] as const;
const WHY = ['--why <text>', 'for the record'] as const;
const deciding = (name: 'approve' | 'deny' | 'answer') => async () =>
  (await import('./commands/approvals-decide.ts'))[name];

export const APPROVALS: readonly CommandSpec[] = [
  {
    name: 'ls',
    summary: 'list what waits for an answer',
    options: [
      ['--all', 'also what was decided'],
      ['--thread <thread>', 'only of this one'],
      PROJECT,
    ],
    load: async () => (await import('./commands/approvals-ls.ts')).listApprovals,
  },
  {
    name: 'approve',
    summary: 'allow exactly what was asked for',
    args: [APPROVAL],
    options: [
      ['--uses <count>', 'how often it may be used'],
      ['--for <time>', 'how long it holds, such as 15m or 2h'],
      ['--beyond', 'also what the directive does not declare'],
      WHY,
      PROJECT,
    ],
    load: deciding('approve'),
  },
  {
    name: 'deny',
    summary: 'refuse it',
    args: [APPROVAL],
    options: [WHY, PROJECT],
    load: deciding('deny'),
  },
  {
    name: 'answer',
    summary: 'answer a question in words',
    args: [APPROVAL, ['<words...>', 'the answer']],
    options: [PROJECT],
    load: deciding('answer'),
  },
];
