// Implements the commands for tokens, with which clients reach this project over HTTP.
import { fail, ok } from '@kernmantle/core/base';
import { noted, personAuditRow } from '@kernmantle/core/runtime';
import { openTokens } from '@kernmantle/web';
import { asText } from '../../command.ts';
import { commandActor, inProject } from '../../project.ts';
import { visible } from '../../terminal/terminal.ts';
import { countOption } from '../../threads/open-threads.ts';

const DAYS = 90;

export const addToken = inProject(async (runtime, call) => {
  const { options, terminal } = call;
  const days = countOption(options, 'days');
  if (!days.ok) return days;
  const name = asText(options.name) ?? '';
  const role = asText(options.role) ?? 'view';
  const tried = openTokens(runtime).add({ name, role, days: days.output ?? DAYS });
  if (!tried.ok && tried.error.code === 'invalid_input') {
    return fail('usage', tried.error.detail.message);
  }
  const id = tried.ok ? tried.output.id : '';
  const added = noted(
    runtime,
    personAuditRow(commandActor(call), 'token:add', id, `${role} ${name}`),
    tried,
  );
  return terminal.finish(added, ({ token, expires }) => {
    terminal.note(`${id} opens this project as ${role} until ${expires.slice(0, 10)}`);
    terminal.note('this token is shown once; clients send it as `Authorization: Bearer TOKEN`:');
    terminal.out(token);
  });
});

export const listTokens = inProject(async (runtime, { terminal }) => {
  return terminal.finish(openTokens(runtime).list(), (tokens) => {
    for (const { id, name, role, created, expires, last } of tokens) {
      const isOver = !(Date.parse(expires) > Date.now());
      const times = `since ${created.slice(0, 10)}, until ${expires.slice(0, 10)}, ends in ${last}`;
      const state = isOver ? terminal.paint('red', ' over') : '';
      terminal.out(`${id} ${role} ${visible(name)} ${terminal.paint('dim', times)}${state}`);
    }
    if (tokens.length === 0) terminal.note('no tokens; create one with `km web token add`');
  });
});

export const removeToken = inProject(async (runtime, call) => {
  const { args, terminal } = call;
  const id = asText(args[0]) ?? '';
  const row = personAuditRow(commandActor(call), 'token:remove', id);
  const removed = noted(runtime, row, openTokens(runtime).remove(id));
  return terminal.finish(removed.ok ? ok({ id }) : removed, () =>
    terminal.out(`removed ${id}; its connections are closed`),
  );
});
