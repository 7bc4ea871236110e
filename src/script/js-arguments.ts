// What a js block is given: its parameters as data, and by name the functions and facts it mentions.
import { type Outcome, ok } from '../base/index.ts';
import { dataText } from './js-data.ts';
import type { Realm } from './js-realm.ts';
import type { Unit, Units } from './js-units.ts';
import type { JsArgument, JsCall } from './world.ts';

/** How many characters were given. */
function give(realm: Realm, argument: JsArgument): number {
  if (argument.kind === 'undefined') {
    realm.give('data', 'u', '', '');
    return 0;
  }
  if (argument.kind === 'data' && typeof argument.data !== 'object') {
    realm.give('plain', argument.data, '', '');
    return typeof argument.data === 'string' ? argument.data.length : 0;
  }
  const text = dataText(argument.data);
  if (argument.kind === 'data') realm.give('data', text, '', '');
  else if (argument.kind === 'kept') {
    realm.give('kept', text, argument.text, dataText(argument.mx));
  } else realm.give(argument.isStage ? 'stage' : 'text', text, argument.text, '');
  return text.length;
}

/** Helpers that the block mentions, and those that they mention. */
function define(
  realm: Realm,
  units: Units,
  call: JsCall,
  free: readonly string[],
  known: Set<string>,
): Outcome<null> {
  for (const name of free) {
    if (known.has(name)) continue;
    known.add(name);
    const helper = call.helpers.findLast((one) => one.name === name);
    if (!helper) realm.give('named', dataText(call.mx()), name, '');
    else if (helper.source === undefined) realm.define(name, -1, 0, '[]');
    else {
      const names = call.helpers.map((one) => one.name);
      const unit = units.get(helper.source, helper.parameters, names);
      if (!unit.ok) return unit;
      const more = define(realm, units, call, unit.output.free, known);
      if (!more.ok) return more;
      realm.define(name, unit.output.id, unit.output.arity, JSON.stringify(unit.output.free));
    }
  }
  return ok(null);
}

/** Fills the call that was opened; answers how many characters of data went in. */
export function giveAll(realm: Realm, units: Units, call: JsCall, unit: Unit): Outcome<number> {
  let size = 0;
  for (const { value } of call.parameters) size += give(realm, value);
  const defined = define(realm, units, call, unit.free, new Set());
  if (!defined.ok) return defined;
  for (const name of unit.free) realm.giveNamed(name);
  return ok(size);
}
