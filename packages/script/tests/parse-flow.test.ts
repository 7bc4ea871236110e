import { printStatement } from '@kernmantle/test-support/print-script';
import { describe, expect, test } from 'vitest';
import { parseScript } from '../src/syntax/parse.ts';

function read(text: string): string {
  const { script, problems } = parseScript(text, { mode: 'strict', file: 'x' });
  const [statement] = script?.body ?? [];
  if (statement === undefined || statement.kind === 'text') return `! ${problems[0]?.message}`;
  return printStatement(statement).replaceAll('\n', ' ');
}

describe('when', () => {
  test.each([
    ['when @c => show "x"', 'when @c => show "x"'],
    ['when first [ @a => 1; @b => 2 ]', 'when [ @a => 1 @b => 2 ]'],
    [
      'when @m : [ "a" => 1\n >> c\n > 3 => 2 << d\n none => 3 ]',
      'when @m [ "a" => 1 > 3 => 2 none => 3 ]',
    ],
    ['when [ @a => "A"   * => "B" ]', 'when [ @a => "A" * => "B" ]'],
    [
      'when [ let @x = 1\n@x += 2\n@x => [ show "a"\nshow "b" ] ]',
      'when [ let @x = 1 @x += 2 @x => [ show "a" show "b" ] ]',
    ],
    ['when @c => var @x = 1', 'when @c => var @x = 1'],
    [
      'exe @f() = when [ @a => retry "x"  @b => done  @c => continue 1  denied => skip ]',
      'exe @f() = when [ @a => retry "x" @b => done @c => continue 1 denied => skip ]',
    ],
  ])('%s', (text, printed) => {
    expect(read(text)).toBe(printed);
  });

  test.each([
    ['when [ @a => 1, @b => 2 ]', 'commas between the arms'],
    ['when: [ @a => 1 ]', 'needs a value before the colon'],
    ['when @c [ show "x" ]', 'is not an arm of `when`'],
    ['when @c [ => 1 ]', 'an arm needs a condition'],
    ['when [ none => 1\n@a => 2 ]', 'must be the last condition'],
    ['when [ * => 1\nnone => 2 ]', 'cannot follow `*`'],
    ['when !none => 1', 'cannot be used with operators'],
    ['when @a && none => 1', 'cannot be used with operators'],
    ['when @a => /show "x"', '`/show` is not allowed here'],
    ['when @a => [ var @x = 1 ]', '`var` is not allowed in a block'],
    ['exe @f() = when [ * => deny "x" ]', 'is allowed only in the arms of a guard'],
  ])('%s', (text, message) => {
    expect(read(text)).toContain(message);
  });
});

describe('if, for, loop', () => {
  test.each([
    [
      'if @a [ show "x" ] else if @b [ => 1 ] else [ ]',
      'if @a [ show "x" ] else if @b [ => 1 ] else [ ]',
    ],
    ['if @a [ bail "x" ]\nelse [ return ]', 'if @a [ bail "x" ] else [ return ]'],
    ['for @k, @v in @o => show `@k`', 'for @k, @v in @o => show `@k`'],
    ['for @i.path in @xs when @i.ok [ @f(@i) ]', 'for @i.path in @xs when @i.ok [ @f(@i) ]'],
    ['for parallel(3, 100ms) @x in @xs => @x', 'for parallel(3, 100ms) @x in @xs => @x'],
    ['for 2 parallel @x in @xs => @x', 'for parallel(2) @x in @xs => @x'],
    [
      'for parallel @x in @xs => for @y in @x => @y',
      'for parallel @x in @xs => for @y in @x => @y',
    ],
    [
      'var @r = for @x in @xs => @f(@x) | @g => | @h | @i',
      'var @r = for @x in @xs => @f(@x) | @g => | @h | @i',
    ],
    [
      'loop(10, 5ms) until @input >= 3 [ continue @x ]',
      'loop(10, 5ms) until @input >= 3 [ continue @x ]',
    ],
    ['loop [ done ]', 'loop [ done ]'],
    [
      'show foreach @f(@xs) with { separator: " " }',
      'show foreach @f(@xs) with { separator: " " }',
    ],
  ])('%s', (text, printed) => {
    expect(read(text)).toBe(printed);
  });

  test.each([
    ['if @c => x', '`if` needs a block'],
    ['loop(3) [ retry ]', '`retry` is not allowed in a loop'],
    ['for @x of @xs => 1', 'expected `in`'],
    ['for @x in @xs', 'expected `=>` or a block'],
    ['when true => skip', 'cannot be used here'],
    ['for @x in @xs [ var @y = 1 ]', '`var` is not allowed in a block'],
    ['for @x in @xs [ "a" ]', 'expected a statement'],
  ])('%s', (text, message) => {
    expect(read(text)).toContain(message);
  });
});

describe('effects', () => {
  test.each([
    ['show @a | @b', 'show @a | @b'],
    ['output "doc.md"', 'output to "doc.md"'],
    ['output to "doc.md"', 'output to "doc.md"'],
    ['output @a "x.txt"', 'output @a to "x.txt"'],
    ['output @a to data.json as yaml', 'output @a to data.json as yaml'],
    ['output @f("a", "b") to @root/x.txt', 'output @f("a", "b") to @root/x.txt'],
    ['output `x` to stderr', 'output `x` to stderr'],
    ['output @a to env:NAME', 'output @a to env:NAME'],
    ['append @a to "x.jsonl"', 'append @a to "x.jsonl"'],
  ])('%s', (text, printed) => {
    expect(read(text)).toBe(printed);
  });

  test.each([
    ['show {ls}', 'cannot execute anything'],
    ['show js { 1 }', 'cannot execute anything'],
    ['show run {ls}', 'cannot execute anything'],
    ['show [1]', 'array or object literal'],
    ['show { a: 1 }', 'array or object literal'],
    ['show "a" "b"', 'takes one argument'],
    ['output @x', 'needs a target'],
    ['append "x"', 'needs a value'],
  ])('%s', (text, message) => {
    expect(read(text)).toContain(message);
  });
});

describe('modules', () => {
  test.each([
    ['import { @a, b as @c, } from "./m.mld"', 'import { a, b as @c } from "./m.mld"'],
    ['import static <./m.mld> as @m', 'import static ./m.mld as @m'],
    ['import "./m.mld"', 'import "./m.mld"'],
    ['import { * as @m } from @root/m.mld', 'import @root/m.mld as @m'],
    ['import { x } from @payload', 'import { x } from @payload'],
    ['import templates from "./d" as @t(a, b)', 'import templates from "./d" as @t(a, b)'],
    ['import policy @p from "./m.mld"', 'import policy @p from "./m.mld"'],
    [
      'import cached(1h) "https://a.test/m" as @m with { skipDirs: [] }',
      'import cached(1h) "https://a.test/m" as @m with { skipDirs: [] }',
    ],
    ['export { @a, b }', 'export { @a, @b }'],
    ['export { * }', 'export { * }'],
  ])('%s', (text, printed) => {
    expect(read(text)).toBe(printed);
  });

  test('what cannot be imported', () => {
    expect(read('import { * } from "m"')).toBe('! `import { * }` is not allowed');
    expect(read('import module { a } from "./m.mld"')).toContain('registry reference');
    expect(read('import { a } from node @http')).toContain('node modules');
  });
});

describe('rules', () => {
  test.each([
    [
      'guard @g before secret = when [ @a => deny "x @y"\n* => allow ]',
      'guard @g before secret = when [ @a => deny "x @y" * => allow ]',
    ],
    [
      'guard after @g for op:cmd:git = when [ * => allow @f(@output) ]',
      'guard @g after op:cmd:git = when [ * => allow @f(@output) ]',
    ],
    ['guard for @f = when [ * => ask "ok?" ]', 'guard before @f = when [ * => ask "ok?" ]'],
    [
      'guard privileged always secret = when [ @a => !pii @v\n@b => clear! @v\n* => allow @v with { addLabels: ["x"] } ]',
      'guard privileged always secret = when [ @a => allow !pii @v @b => allow clear! @v * => allow @v with { addLabels: ["x"] } ]',
    ],
    [
      'guard before a = when [ @x => allow  @y => retry "a" ]',
      'guard before a = when [ @x => allow @y => retry "a" ]',
    ],
    [
      'hook @h after op:exe = [ show @output\n=> @output ]',
      'hook @h after op:exe = [ show @output => @output ]',
    ],
    [
      'hook before @read(\'src/\') = when [ @input[0] => "x" ]',
      'hook before @read("src/") = [ when [ @input[0] => "x" ] ]',
    ],
    [
      'guard before op:run = when [ * => [ log "x"\ndeny "no" ] ] with { privileged: true }',
      'guard privileged before op:run = when [ * => [ log "x" => deny "no" ] ]',
    ],
    ['policy @p = union(@a, @b)', 'policy @p = union(@a, @b)'],
    ['policy @p = { allow: ["sh"] }', 'policy @p = { allow: ["sh"] }'],
    ['needs { cmd: [git, npm], sh }', "needs { cmd: ['git', 'npm'], sh: true }"],
    ['=> known @x', '=> known @x'],
  ])('%s', (text, printed) => {
    expect(read(text)).toBe(printed);
  });

  test('a guard needs a timing, a filter and arms that decide', () => {
    expect(read('guard secret = when [ * => allow ]')).toContain('needs a timing');
    expect(read('guard @g before = when [ * => allow ]')).toContain('needs a filter');
    expect(read('guard before x = when [ * => show "y" ]')).toContain(
      'an arm of a guard must decide',
    );
  });
});
