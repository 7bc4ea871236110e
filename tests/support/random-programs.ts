// Generates random programs from every construct through which one value can influence another.
import fc from 'fast-check';

export interface Program {
  readonly lines: readonly string[];
}

/** Names that an expression can use. Functions are always available. */
interface Scope {
  readonly names: readonly string[];
  /** Names of sums, to which a statement can add. */
  readonly cells: readonly string[];
  readonly depth: number;
}

const FUNCTIONS = [
  'same',
  'tell',
  'pick',
  'count',
  'early',
  'sorted',
  'pairs',
  'side',
  'rounds',
  'read',
  'made',
  'every',
  'match',
  'found',
  'marked',
  'arms',
  'joined',
  'sifted',
  'batched',
  'turns',
];

/** Fixed functions: a template, a choice, a loop with a sum, an early return, and a function that captures. */
const PRELUDE = [
  'exe @same(x) = [ => @x ]',
  'exe @tell(x) = `told: @x!`',
  'exe @pick(x) = when [ @x == 1 => "one"  @x => @a  * => "none" ]',
  'exe @count(x) = [ let @n = 0  for @i in [1, 2, 3] [ if @i > @x [ @n += 1 ] ]  => @n ]',
  'exe @early(x) = [ if @x [ => "left" ]  => "stayed" ]',
  'exe @counted(x) = `@p.length @p[0] @mx.try @mx.tries @p.tries`',
  'exe @again(x) = when [ @mx.try < 2 && @x == 1 => retry "more"  * => `@x after @mx.try` ]',
  'exe @sorted(x) = [ let @l = [3, @x, 1, "x"]  let @s = @l.sort()  => @s[1] ]',
  'exe @pairs(x) = [ let @o = { "m": 1, "k"?: @x, ...{ "n": @x } }  => for @k, @v in @o => `@k=@v` ]',
  'exe @side(x) = [ let @l = for parallel(2) @i in [1, @x?, 2] => when [ @i == @x => skip  * => @i ]  => @l ]',
  'exe @step(x) = when [ @x > 2 => done @x; @x == "x" => done "text"; * => continue @x + 1 ]',
  'exe @rounds(x) = [ let @l = []  for @i in [1, 2, 3] [ if @i == @x [ done ]  @l += @i ]  => @l.length ]',
  'exe @read(x) = [ let @t = `{"k": "@x", "m": 1}`  let @o = @parse.llm(@t)  => @o.m ?? "unread" ]',
  'exe @every(x) = foreach @tell([1, @x])',
  'exe @match(x) = when @x [ 1 => "one"; > 1 => "more"; "x" => "text"; none => "other" ]',
  'exe @found(x) = [ let @l = [@exists(@x.k), @exists(@x.trim()), @exists("a/@x")]  => @l ]',
  'exe @marked(x) = [ let @t = `@x`  let @r = @t.replace(/([0-9])|x/g, "<$1>") | @parse.llm  => when @x [ ~= "1, x" => @t.replaceAll({ "1": @x }); none => `@r` ] ]',
  'exe @arms(x) = [ when @x == 1 => "one"\n when @x > 1 => [ => "more" ]\n => "rest" ]',
  'exe @joined(x) = when @x [ 1 || "x" => "a"; > 1 && !(> 2) => "b"; !null => "c" ]',
  'exe @sifted(x) = for @i in [1, 2, 3] when [ @i == @x => "same"\n @i > 2 => @i ]',
  'exe @batched(x) = foreach @tell([1, @x?, 2]) => | @same',
  'exe @turns(x) = loop(3) [ when @mx.loop.iteration > @x => "over"\n continue @x ]',
  'exe @stop(x) = when [ @x == "x" => ""  * => @x ]',
];

const pick = <T>(list: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...list);

const literal = pick(['0', '1', '2', '"x"', "'y'", 'null', 'true', '[1, 2]', '{ "k": 1 }']);

function reference({ names }: Scope): fc.Arbitrary<string> {
  const step = pick(['.k', '[0]', '[-1]', '.length', '.m', '.mx.length', '.isDefined()']);
  return fc.oneof(
    pick(names).map((name) => `@${name}`),
    // On the left of `??`, a missing field of a plain value is nothing, not an error.
    fc.tuple(pick(names), step).map(([name, steps]) => `(@${name}${steps} ?? "none")`),
  );
}

const compound = (scope: Scope, inner: fc.Arbitrary<string>): fc.Arbitrary<string>[] => [
  fc
    .tuple(inner, pick(['+', '-', '*', '==', '!=', '~=', '!~=', '<', '>', '&&', '||', '??']), inner)
    .map(([left, operator, right]) => `(${left} ${operator} ${right})`),
  inner.map((one) => `(!${one})`),
  fc.tuple(inner, inner, inner).map(([c, a, b]) => `(${c} ? ${a} : ${b})`),
  fc.array(inner, { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
  fc.tuple(inner, pick(scope.names)).map(([one, name]) => `[${one}, @${name}?, 9]`),
  fc.tuple(inner, inner).map(([k, m]) => `{ "k": ${k}, "m": ${m} }`),
  fc.tuple(pick(scope.names), inner).map(([name, one]) => `{ "k"?: @${name}, "m": ${one} }`),
  fc.tuple(pick(scope.names), pick(scope.names)).map(([x, y]) => `\`t @${x} and @${y}?.\``),
  fc.tuple(pick(scope.names)).map(([x]) => `\`d @${x}??"none" @${x}?"some".\``),
  fc.tuple(pick(FUNCTIONS), inner).map(([name, one]) => `@${name}(${one})`),
  fc
    .tuple(
      pick(scope.names),
      pick([
        '@same',
        '@tell',
        '@pick',
        '@early',
        '@again',
        '@stop | @tell',
        '@upper',
        'while(9) @step',
        '@again | @tell | @again',
        '@match | @counted',
      ]),
    )
    .map(([name, stage]) => `(@${name} | ${stage})`),
  fc
    .tuple(pick(scope.names), pick(['@tell', '@pick']))
    .map(([name, stage]) => `(@${name} | @same || ${stage})`),
];

function expression(scope: Scope, depth = scope.depth): fc.Arbitrary<string> {
  const leaf = fc.oneof(
    { weight: 1, arbitrary: literal },
    { weight: 3, arbitrary: reference(scope) },
  );
  if (depth <= 0) return leaf;
  return fc.oneof(
    { weight: 2, arbitrary: leaf },
    ...compound(scope, expression(scope, depth - 1)).map((arbitrary) => ({ weight: 1, arbitrary })),
  );
}

/** Generates an expression that is only allowed on the right of `var @x =`. */
function choice(scope: Scope): fc.Arbitrary<string> {
  const one = expression(scope);
  const list = pick(scope.names);
  const item: Scope = { ...scope, names: [...scope.names, 'item'] };
  return fc.oneof(
    one,
    fc
      .tuple(one, one, one, one)
      .map(([c, a, d, b]) => `when [ (${c}) => ${a}\n (${d}) => ${b}\n * => "other" ]`),
    fc.tuple(one, one).map(([c, a]) => `when [ (${c}) => ${a} ]`),
    fc.tuple(list, expression(item)).map(([xs, v]) => `for @item in [@${xs}, 2, @${xs}?] => ${v}`),
    fc.tuple(list, expression(item)).map(([xs, v]) => `for @item in @${xs} => ${v}`),
    list.map((xs) => `[3, 1, @${xs}]`),
    fc.tuple(list, list).map(([xs, ys]) => `[1, ...[@${xs}?], @${ys}]`),
    fc.tuple(list, list).map(([xs, ys]) => `{ "k": 1, ...{ "m"?: @${xs} }, "n": @${ys} }`),
    fc
      .tuple(expression(item), expression(item))
      .map(([c, v]) => `for @item in [1, 2, 3] when (${c}) => ${v}`),
    fc
      .tuple(expression(item), expression(item), pick(['skip', 'done']))
      .map(([c, v, word]) => `for @item in [1, 2, 3] => when [ (${c}) => ${word}\n * => ${v} ]`),
    fc.tuple(one, one).map(([until, v]) => `loop(3) until (${until}) [ continue ${v} ]`),
    fc.tuple(one, one).map(([c, v]) => `loop(2) [ when (${c}) => ${v}\n continue 1 ]`),
    fc.tuple(one, one, one).map(([c, a, b]) => `[ when (${c}) => ${a}\n => ${b} ]`),
    fc
      .tuple(expression(item), expression(item))
      .map(([c, v]) => `for @item in [1, 2] [ when (${c}) => ${v}\n => @item ]`),
    fc
      .tuple(list, expression(item), expression(item))
      .map(([xs, c, v]) => `for @item in [1, @${xs}, 3] when [ (${c}) => ${v} ]`),
    fc
      .tuple(list, one, one)
      .map(([x, a, b]) => `when @${x} [ ${a} || !${b} => "first"; > 1 && ${b} => "second" ]`),
    fc
      .tuple(one, one)
      .map(
        ([a, b]) =>
          `[ let @l = 0\n if (${a}) [ @l += 1 ]\n let @m = [${a}]\n for @i in @m [ @m += @i ]\n => [@l, @m, ${b}] ]`,
      ),
  );
}

/** Generates one line, and the scope after it. */
function statement(
  scope: Scope,
  effect: string,
  serial: number,
): fc.Arbitrary<{ text: string; scope: Scope }> {
  const one = expression(scope);
  const same = (text: string) => ({ text, scope });
  const name = `v${serial}`;
  const bound = { ...scope, names: [...scope.names, name], cells: [...scope.cells, name] };
  const add = fc
    .tuple(pick(scope.cells.length > 0 ? scope.cells : ['none']), one)
    .map(([cell, v]) => `@${cell} += ${v}`);
  return fc.oneof(
    {
      weight: 3,
      arbitrary: choice(scope).map((v) => ({ text: `var @${name} = ${v}`, scope: bound })),
    },
    { weight: 3, arbitrary: one.map((v) => same(`${effect} \`out @same(${v})\``)) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(one, one)
        .map(([c, v]) =>
          same(`if (${c}) [ ${effect} \`then @same(${v})\` ] else [ ${effect} "else" ]`),
        ),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(one, one)
        .map(([c, v]) => same(`when (${c}) => ${effect} \`arm @same(${v})\``)),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(pick(scope.names), one)
        .map(([xs, v]) =>
          same(`for @item in [@${xs}, 1] => ${effect} \`round @item @same(${v})\``),
        ),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(one, one)
        .map(([c, v]) => same(`for @item in [1, 2] when (${c}) => ${effect} \`kept @same(${v})\``)),
    },
    ...(scope.cells.length > 0
      ? [
          { weight: 1, arbitrary: add.map((line) => same(`if true [ ${line} ]`)) },
          {
            weight: 2,
            arbitrary: fc.tuple(one, add).map(([c, line]) => same(`if (${c}) [ ${line} ]`)),
          },
          {
            weight: 1,
            arbitrary: fc
              .tuple(pick(scope.names), add)
              .map(([xs, line]) => same(`for @item in [@${xs}?, 1] [ ${line} ]`)),
          },
        ]
      : []),
  );
}

const lines = (
  scope: Scope,
  effect: string,
  left: number,
  serial = 0,
): fc.Arbitrary<readonly string[]> =>
  left === 0
    ? fc.constant([])
    : statement(scope, effect, serial).chain(({ text, scope: next }) =>
        lines(next, effect, left - 1, serial + 1).map((rest) => [text, ...rest]),
      );

/** Generates `exe @made(x)`: lines with early returns, and sums that conditions change. */
function madeFunction(inputs: readonly string[]): fc.Arbitrary<string> {
  const scope: Scope = { names: [...inputs, 'x', 'n', 'l'], depth: 1, cells: [] };
  // Often an input alone, so that nothing else decides the statements below it.
  const one = fc.oneof(
    pick(inputs).map((name) => `@${name}`),
    expression(scope),
  );
  const line = fc.oneof(
    fc.tuple(one, one).map(([c, v]) => `if (${c}) [ => ${v} ]`),
    fc.tuple(one, one).map(([c, v]) => `when (${c}) => ${v}`),
    fc.tuple(one, one).map(([c, v]) => `for @i in [1, 2] [ when (${c}) => ${v} ]`),
    fc.tuple(one, one).map(([c, v]) => `for @i in [1, 2] when [ (${c}) => [ @l += ${v} ] ]`),
    one.map((c) => `if (${c}) [ @n += 1 ]`),
    pick(inputs).map((name) => `for @i in [@${name}?] [ @n += 1 ]`),
    fc.tuple(one, one).map(([c, v]) => `when (${c}) => [ @l += [${v}] ]`),
    fc
      .tuple(one, one)
      .map(([c, v]) => `for @i in [1, 2] [ if (${c}) [ @l += ${v} ] else [ @n += @i ] ]`),
    fc
      .tuple(one, one)
      .map(([c, v]) => `for @i in @l [ when (${c}) => done\n @n += 1\n @l += [${v}] ]`),
    one.map((c) => `loop(2) until (${c}) [ @n += 1\n continue @n ]`),
    one.map((v) => `show \`inside @same(${v})\``),
  );
  return fc
    .tuple(fc.array(line, { maxLength: 3 }), one)
    .map(([body, v]) =>
      ['exe @made(x) = [', 'let @n = 0', 'let @l = [1]', ...body, `=> [@n, @l, ${v}]`, ']'].join(
        '\n',
      ),
    );
}

/** Generates a program over these variables, whose outputs are effects of this kind. */
export const program = (inputs: readonly string[], effect = 'show'): fc.Arbitrary<Program> =>
  fc
    .tuple(
      madeFunction(inputs),
      fc
        .integer({ min: 1, max: 6 })
        .chain((count) => lines({ names: inputs, cells: [], depth: 2 }, effect, count)),
    )
    .map(([made, body]) => {
      const bound = body.flatMap((line) => /^var @(\w+)/.exec(line)?.[1] ?? []);
      const parts = bound.flatMap((name) => [`@${name}`, `(@${name}.length ?? 0)`]);
      const ends = ['@made(1)', ...parts].map((part) => `${effect} \`end @same(${part})\``);
      return { lines: [...PRELUDE, made, ...body, ...ends] };
    });
