// Tests the language server as a real process with a real client library.
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Editor, openEditor, startServer } from '@kernmantle/test-support/lsp-client';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DocumentSymbol } from 'vscode-languageserver-protocol/node';

let fixture: Fixture;
let editor: Editor;

const LIBRARY = `>> things others use
var @limits = { turns: 3, spend: { usd: 1 } }
exe net:w @post(url, body) = cmd {curl -d "@body" "@url"} with { description: "Sends it" }
var @hidden = 1
export { limits, post }
`;

const SCRIPT = `import { post, limits as @caps } from "./lib.mld"
import "./lib.mld" as @lib
var secret,pii @key = "k"
var @o = { name: "Ann", address: { city: "Oslo" } }
exe @hello(who, times: number) = [
  let @line = \`Hello @who\`
  => @line.trim()
]
for @item in [1, 2] => show @hello(@item)
show @lib.limits
show @key | @upper
show @mx.op.type
`;

beforeAll(async () => {
  fixture = makeFixture({ 'lib.mld': LIBRARY });
  editor = await openEditor(fixture);
  await editor.open('main.mld', SCRIPT);
});
afterAll(async () => {
  try {
    expect(await editor.close()).toBe(0);
  } finally {
    fixture.remove();
  }
});

test('it says what it can do', () => {
  expect(editor.capabilities).toMatchObject({
    hoverProvider: true,
    definitionProvider: true,
    documentSymbolProvider: true,
    completionProvider: { triggerCharacters: expect.arrayContaining(['@', '.']) },
  });
});

describe('diagnostics', () => {
  test('every problem of a script has its range, its code and the right form', async () => {
    const text = 'var @x = 1\nrun echo hi\nshow @x @x\n';
    const found = await editor.open('slips.mld', text);
    expect(found.map(({ range, code }) => [range.start.line, code])).toEqual([
      [1, expect.stringMatching(/^script_/)],
      [2, expect.stringMatching(/^script_/)],
    ]);
    expect(found[0]?.message).toContain('hint: ');
    expect(found[0]?.severity).toBe(1);
  });

  test('they go when the slip is mended, and come back with the next one', async () => {
    expect(await editor.open('mend.mld', 'show "open\nshow 2\n')).not.toEqual([]);
    expect(await editor.edit('mend.mld', '"open', '"closed"')).toEqual([]);
    expect(await editor.edit('mend.mld', 'show 2', 'show 2 3')).toHaveLength(1);
  });

  test('markdown is text except for its statements', async () => {
    expect(await editor.open('a.md', '# Title\n\nshow @nothing and "open\n')).toEqual([]);
    const [found] = await editor.open('b.md', '# Title\n\n/var @x 1\n');
    expect(found?.range.start).toEqual({ line: 2, character: 8 });
  });

  test('names that nothing binds and arguments that do not fit, also of imported functions', async () => {
    const text = 'import { post } from "./lib.mld"\nvar @name = 1\nshow @nmae\nshow @post("u")\n';
    const found = await editor.open('names.mld', text);
    expect(found.map(({ range, code, severity }) => [range.start, code, severity])).toEqual([
      [{ line: 2, character: 5 }, 'script_name_unbound', 1],
      [{ line: 3, character: 5 }, 'script_argument_missing', 2],
    ]);
    expect(found[0]?.range.end.character).toBe(10);
    expect(found[0]?.message).toContain('did you mean `@name`?');
    expect(await editor.edit('names.mld', '@nmae', '@name')).toHaveLength(1);
  });

  test('directives are checked as everywhere, among the items of their project', async () => {
    const found = await editor.open(
      '.ai/directives/tidy.md',
      `<directive name="tidy" version="1.0.0">
  <metadata>
    <description>x</description><category>x</category>
    <modle tier="fast"/>
    <hooks><hook><when>cost.turns = 1</when><directive>none_such</directive></hook></hooks>
  </metadata>
  <process><step name="a">b</step></process>
</directive>
`,
    );
    expect(found.map(({ code, range }) => [code, range.start.line])).toEqual([
      ['tag_unknown', 3],
      ['expression_error', 4],
      ['hook_directive_unknown', 4],
    ]);
  });

  test('the script of a directive is checked at its place', async () => {
    const text = `<directive name="count" version="1.0.0">
  <metadata><description>x</description><category>x</category><limits/><permissions/></metadata>
  <inputs><folder type="string">Where to look</folder></inputs>
  <process>
    <script>
      /var @found = @folder
      /retrun { n: 1 }
    </script>
  </process>
  <outputs><n type="number">x</n></outputs>
</directive>
`;
    const found = await editor.open('.ai/directives/count.md', text);
    expect(found.map(({ code, range }) => [code, range.start.line])).toEqual([
      [expect.stringMatching(/^script_/), 6],
    ]);
    expect(await editor.edit('.ai/directives/count.md', '/retrun', '/return')).toEqual([]);
  });
});

test('nothing of what is opened is run', async () => {
  const lines = ['run {touch made}', 'output "x" to "made"', 'run js { globalThis.made = 1 }'];
  expect(await editor.open('acts.mld', `${lines.join('\n')}\nimport "./lib.mld" as @lib`)).toEqual(
    [],
  );
  await editor.complete('acts.mld', '@li');
  expect(existsSync(join(fixture.root, 'made'))).toBe(false);
  expect(existsSync(join(fixture.root, '.ai/audit.jsonl'))).toBe(false);
});

describe('hover', () => {
  const hover = (before: string) => editor.hover('main.mld', before);

  test('a variable shows its labels and the type its literal says', async () => {
    expect(await hover('show @ke')).toBe(
      '```mlld\nvar secret,pii @key\n```\nvariable, string, labels `secret` `pii`',
    );
  });

  test('a function shows its parameters and what its body is', async () => {
    expect(await hover('show @hel')).toContain('exe @hello(who, times: number)');
  });

  test('an imported function shows its labels, body and description', async () => {
    expect(await hover('import { po')).toBe(
      '```mlld\nexe net:w @post(url, body)\n```\nfunction, body cmd, labels `net:w`\nSends it',
    );
  });

  test('labels are followed through templates, functions, loops and imports', async () => {
    const text = `import { post } from "./lib.mld"
var secret @key = "k"
var @line = \`the @key\`
exe @wrap(x) = \`@x @line\`
for @each in [@wrap(1), @post("u", "b")] => show @each
var @plain = "x"
`;
    await editor.open('labels.mld', text);
    expect(await editor.hover('labels.mld', 'var @li')).toContain('may also have labels `secret`');
    expect(await editor.hover('labels.mld', 'show @ea')).toContain('have labels `secret` `net:w`');
    expect(await editor.hover('labels.mld', 'var @pla')).not.toContain('may also');
  });

  test('parameters, loop variables, namespaces and their members are known', async () => {
    expect(await hover('@hello(who, tim')).toContain('parameter, number');
    expect(await hover('for @it')).toContain('loop variable');
    expect(await hover('show @li')).toContain('namespace');
    expect(await hover('show @lib.lim')).toContain('variable, object');
  });

  test('transformers, methods, words and members of the context have a line each', async () => {
    expect(await hover('| @upp')).toContain('in capitals');
    expect(await hover('@line.tr')).toContain('without blanks at both ends');
    expect(await hover('@mx.op.ty')).toContain('var run exe');
    expect(await hover('\nfo')).toContain('repeats');
  });
});

describe('completion', () => {
  const typed = async (line: string): Promise<string[]> => {
    const file = `typed-${Math.abs(line.length * 31 + line.charCodeAt(line.length - 1))}-${line.replace(/\W/g, '_')}.mld`;
    await editor.open(file, `${SCRIPT}${line}`);
    return await editor.complete(file, `${SCRIPT}${line}`);
  };

  test('statement words at the beginning of a line', async () => {
    expect(await typed('va')).toEqual(expect.arrayContaining(['var', 'exe', 'guard', 'let']));
  });

  test('names that can be seen after @, and no others', async () => {
    const names = await typed('show @');
    expect(names).toEqual(
      expect.arrayContaining(['key', 'o', 'hello', 'post', 'caps', 'lib', 'mx', 'upper']),
    );
    expect(names).not.toContain('line');
    expect(names).not.toContain('item');
    expect(names).not.toContain('x');
  });

  test('parameters and names of blocks inside their function, also in one that is not finished', async () => {
    const names = await typed('exe @g(first) = [\n  let @second = 1\n  => @');
    expect(names).toEqual(expect.arrayContaining(['first', 'second']));
  });

  test('fields of literals, at any depth, with the methods of what they are', async () => {
    expect(await typed('show @o.')).toEqual(expect.arrayContaining(['name', 'address', 'mx']));
    expect(await typed('show @o.address.')).toContain('city');
    const methods = await typed('show @o.name.');
    expect(methods).toContain('toUpperCase');
    expect(methods).not.toContain('concat');
  });

  test('what a module exports, and the fields behind it', async () => {
    expect(await typed('show @lib.')).toEqual(['limits', 'post', '__meta__']);
    expect(await typed('show @lib.limits.spend.')).toContain('usd');
    expect(await typed('show @caps.')).toContain('turns');
  });

  test('members of the context, variants of @parse, stages', async () => {
    expect(await typed('show @mx.')).toEqual(expect.arrayContaining(['op', 'guard', 'try']));
    expect(await typed('show @mx.op.')).toContain('subtype');
    expect(await typed('show @key.mx.')).toContain('taint');
    expect(await typed('show @key | @parse.')).toEqual(['strict', 'loose', 'llm', 'fromlist']);
    expect(await typed('show @key | ')).toContain('log');
  });

  test('timings, filters and decisions of guards', async () => {
    expect(await typed('guard @g ')).toEqual(expect.arrayContaining(['before', 'privileged']));
    expect(await typed('guard @g before ')).toEqual(
      expect.arrayContaining(['secret', 'pii', 'op:show', '@hello']),
    );
    expect(await typed('guard @g before secret = when [ * => ')).toEqual(
      expect.arrayContaining(['allow', 'deny', 'retry', 'ask']),
    );
  });

  test('names of the file that is imported from', async () => {
    await editor.open('importing.mld', 'import {  } from "./lib.mld"\n');
    expect(await editor.complete('importing.mld', 'import { ')).toEqual(['limits', 'post']);
  });

  test('in markdown, words after a slash and nothing in text', async () => {
    await editor.open('c.md', 'Dear @\n\n/sh');
    expect(await editor.complete('c.md', '/sh')).toContain('show');
    expect(await editor.complete('c.md', 'Dear @')).toEqual([]);
  });

  test('tags and attributes of directives', async () => {
    const file = '.ai/directives/typed.md';
    const text = `<directive name="typed" version="1.0.0">
  <metadata>
    <limits><tu</limits>
    <model tier="fast" ></model>
    <
  </metadata>
</directive>
`;
    await editor.open(file, text);
    expect(await editor.complete(file, '<limits><tu')).toEqual(
      expect.arrayContaining(['turns', 'tokens', 'spend']),
    );
    expect(await editor.complete(file, 'tier="fast" ')).toEqual([
      'model_id',
      'fallback_id',
      'tools',
    ]);
    expect(await editor.complete(file, '</model>\n    <')).toEqual(
      expect.arrayContaining(['limits', 'permissions', 'hooks']),
    );
    expect(await editor.complete(file, '</model>\n    <')).not.toContain('cost');
    expect(await editor.hover(file, '<limi')).toContain('the most it may use');
  });

  test('inputs of a directive are names of its script', async () => {
    const file = '.ai/directives/inside.md';
    await editor.open(
      file,
      `<directive name="inside" version="1.0.0">
  <metadata><description>x</description><category>x</category></metadata>
  <inputs><input name="folder" type="string" required="true">Where to look</input></inputs>
  <process><script>
/show @folder
/show @input.
  </script></process>
</directive>
`,
    );
    expect(await editor.complete(file, '@input.')).toContain('folder');
    expect(await editor.hover(file, 'show @fol')).toContain('input, string, required');
    expect(await editor.definition(file, 'show @fol')).toBe(`${file}:3:24+6`);
  });
});

describe('definition', () => {
  const definition = (before: string) => editor.definition('main.mld', before);

  test('variables, functions, parameters and loop variables', async () => {
    expect(await definition('show @ke')).toBe('main.mld:3:17+3');
    expect(await definition('show @hel')).toBe('main.mld:5:6+5');
    expect(await definition('Hello @wh')).toBe('main.mld:5:12+3');
    expect(await definition('@hello(@it')).toBe('main.mld:9:6+4');
  });

  test('imported names lead into their file', async () => {
    expect(await definition('import { po')).toBe('lib.mld:3:12+4');
    expect(await definition('show @lib.lim')).toBe('lib.mld:2:6+6');
    expect(await definition('show @li')).toBe('lib.mld:1:1+0');
    expect(await definition('from "./li')).toBe('lib.mld:1:1+0');
  });

  test('what the language provides has none', async () => {
    expect(await definition('| @upp')).toBeUndefined();
  });

  test('an imported file that is open is seen as it stands in the editor', async () => {
    await editor.open('lib.mld', `\n\n${LIBRARY}`);
    expect(await definition('import { po')).toBe('lib.mld:5:12+4');
    await editor.connection.sendNotification('textDocument/didClose', {
      textDocument: { uri: editor.uri('lib.mld') },
    });
    expect(await definition('import { po')).toBe('lib.mld:3:12+4');
  });
});

describe('what a client may do wrong', () => {
  test('unknown requests, bad parameters and unknown documents are answered', async () => {
    const { connection } = editor;
    await expect(connection.sendRequest('no/such', {})).rejects.toMatchObject({ code: -32601 });
    await expect(connection.sendRequest('textDocument/hover', {})).rejects.toMatchObject({
      code: -32602,
    });
    const nowhere = {
      textDocument: { uri: 'file:///nowhere.mld' },
      position: { line: 0, character: 0 },
    };
    expect(await connection.sendRequest('textDocument/hover', nowhere)).toBeNull();
    expect(await editor.hover('main.mld', 'show @ke')).toContain('secret');
  });

  test('a document that is too long is not looked at, and the server goes on', async () => {
    const log = new Promise<string>((resolve) =>
      editor.connection.onNotification('window/logMessage', ({ message }: { message: string }) =>
        resolve(message),
      ),
    );
    await editor.connection.sendNotification('textDocument/didOpen', {
      textDocument: {
        uri: editor.uri('long.mld'),
        languageId: 'mlld',
        version: 1,
        text: 'show 1\n'.repeat(200_000),
      },
    });
    expect(await log).toContain('too long');
    expect(await editor.hover('main.mld', 'show @ke')).toContain('secret');
  });
});

describe('how it ends', () => {
  test('with its input', async () => {
    const child = startServer(fixture);
    const ended = once(child, 'exit');
    child.stdin?.end();
    expect(await ended).toEqual([0, null]);
  });

  test('bytes that are no protocol at all do not end it before', async () => {
    const child = startServer(fixture);
    const ended = once(child, 'exit');
    let said = '';
    child.stdout?.on('data', (chunk) => {
      said += String(chunk);
    });
    child.stdin?.write('hello\r\n\r\nContent-Length: 3\r\n\r\n{{{');
    child.stdin?.end('Content-Length: 4\r\n\r\nnullContent-Length: 9999\r\n\r\n{"cut');
    expect(await ended).toEqual([0, null]);
    expect(said.match(/-32700/g)).toHaveLength(2);
  });

  test('without `shutdown` before `exit` it ends with 1', async () => {
    const child = startServer(fixture);
    const ended = once(child, 'exit');
    const text = JSON.stringify({ jsonrpc: '2.0', method: 'exit' });
    child.stdin?.write(`Content-Length: ${text.length}\r\n\r\n${text}`);
    expect(await ended).toEqual([1, null]);
  });
});

describe('symbols', () => {
  const symbols = async (file: string): Promise<string[] | null> => {
    const found = await editor.connection.sendRequest<DocumentSymbol[] | null>(
      'textDocument/documentSymbol',
      { textDocument: { uri: editor.uri(file) } },
    );
    return found && found.map(({ name, range }) => `${range.start.line + 1} ${name}`);
  };

  test('of a script: what it binds for all of it, its guards and its hooks', async () => {
    expect(await symbols('main.mld')).toEqual(
      expect.arrayContaining(['3 @key', '4 @o', '5 @hello']),
    );
    expect(await symbols('main.mld')).not.toContain('6 @line');
    const text = `var secret @k = "k"
guard @named before op:show = when [ * => allow ]
guard before secret = when [ * => deny "no" ]
exe @f(x) = [
  let @inner = @x
  => @inner
]
show "open
`;
    await editor.open('symbols.mld', text);
    expect(await symbols('symbols.mld')).toEqual(['1 @k', '2 @named', '3 guard secret', '4 @f']);
  });

  test('of markdown: headings outside of fences, and the names of its statements', async () => {
    await editor.open('outline.md', '# One\n\n```\n# no heading\n```\n\n## Two ##\n/var @x = 1\n');
    expect(await symbols('outline.md')).toEqual(['1 One', '7 Two', '8 @x']);
  });

  test('of a directive: its sections, and the names in its script', async () => {
    const text = `# Greet

<directive name="greet" version="1.0.0">
  <metadata><description>d</description></metadata>
  <inputs><input name="who" type="string"/></inputs>
  <process><script>
/var @text = "<inputs> is text here"
/return { "text": @text }
  </script></process>
</directive>
`;
    await editor.open('.ai/directives/greet.md', text);
    expect(await symbols('.ai/directives/greet.md')).toEqual([
      '1 Greet',
      '3 directive greet',
      '4 <metadata>',
      '5 <inputs>',
      '5 input who',
      '6 <process>',
      '7 @text',
    ]);
  });

  test('of a file that is not open there are none', async () => {
    expect(await symbols('nowhere.mld')).toBeNull();
  });
});

test.each([
  ['guard before secrt = when [ * => deny "x" ]', 2, 'secret'],
  ['guard before op:shwo = when [ * => deny "x" ]', 1, 'did you mean `show`'],
])('a filter that nothing has is diagnosed: %s', async (rule, severity, near) => {
  const found = await editor.open(`filter-${severity}.mld`, `var secret @k = "k"\n${rule}\n`);
  expect(found).toMatchObject([{ severity, message: expect.stringContaining(near) }]);
});
