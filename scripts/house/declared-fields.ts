// Every field that a file may declare is in force or refused, never shown and ignored: some code that
// does more than read, check or show it must mention it. The compiler finds the mentions.
import { roomOf } from './graph.ts';
import type { Tree } from './tree.ts';
import type { Place } from './walls.mjs';

/** Types that hold what a directive, a tool or a policy declares, and files whose mention does not count. */
const DECLARED: readonly { types: readonly string[]; room: string; passive: RegExp }[] = [
  {
    types: [
      'Directive',
      'DirectiveModel',
      'DirectiveInput',
      'DirectiveOutput',
      'DirectiveProcess',
      'DeviationRules',
      'Hook',
      'Tool',
      'ToolParameter',
      'Retry',
      'ToolAction',
    ],
    room: 'core/items',
    passive:
      /^(core\/items\/((directive|tool)\/|library\/check)|kernmantle\/cli\/|script\/lsp\/|evals\/|web\/|core\/reports\/)/,
  },
  {
    types: ['Policy', 'PolicyRules', 'LabelRule', 'SurfacePolicy'],
    room: 'core/flow',
    passive:
      /^(core\/flow\/(frame|policies\/(policy|read-policy|lint))|kernmantle\/cli\/|evals\/|core\/reports\/)/,
  },
  {
    types: ['ComposedPolicy'],
    room: 'core/flow',
    passive: /^(core\/flow\/policies\/|kernmantle\/cli\/|evals\/|core\/reports\/)/,
  },
];

const EXCEPTIONS: readonly string[] = [
  // Fields for people and for searching.
  'Directive.author',
  'Directive.around',
  'DirectiveModel.context',
  // Only `extends` of a category has an effect. The reader of directives follows it.
  'Tool.category',
  // Locations in the file.
  'Directive.places',
  'Hook.column',
  // Parts that are passed on with the whole: to the model, or as the setting of the next type.
  'DeviationRules.text',
  'Policy.days',
  'Policy.keep_failed',
];

/** Fields without a reader, and exceptions that are not needed. */
export function declaredFields(tree: Tree): Place[] {
  const idle = DECLARED.flatMap(({ types, room, passive }) =>
    types.flatMap((type) => {
      const file = tree.files.find(
        ({ path, exports }) =>
          roomOf(path) === room && exports.some(({ name, target }) => name === type && !target),
      );
      const members = file ? tree.members(file.path, type) : [];
      if (members.length === 0) return [`${type}: type not found in ${room}`];
      return members
        .filter(({ readers }) => readers.every((reader) => passive.test(reader)))
        .map(({ name }) => `${type}.${name}`);
    }),
  );
  const unneeded = EXCEPTIONS.filter((name) => !idle.includes(name));
  return [
    ...idle.filter((name) => !EXCEPTIONS.includes(name)),
    ...unneeded.map((name) => `${name}: exception not needed`),
  ].map((text) => ({ package: 'core', text }));
}
