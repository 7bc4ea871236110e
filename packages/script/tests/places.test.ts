// Sources of values: globs, sections, modules and tools of connectors, on the real command line.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '@kernmantle/core/base';
import { FROM_SOURCE } from '@kernmantle/test-support/built';
import { type Ran, runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { eventsOf, scripted, TEXT } from '@kernmantle/test-support/script-project';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { run, stage } from '@kernmantle/test-support/thread-project';
import { afterEach, describe, expect, test } from 'vitest';
import { installServer, type ServerState } from '../../mcp/tests/support/changing-server.ts';
import { makeConnected } from '../../mcp/tests/support/connected.ts';
import { completeAt } from '../src/lsp/completion.ts';
import { createModules } from '../src/lsp/modules.ts';
import { viewOf } from '../src/lsp/view.ts';

const LAUNCHER = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));

const fixtures: Fixture[] = [];
afterEach(() => {
  for (const fixture of fixtures.splice(0)) fixture.remove();
});

const DOCS = {
  'docs/a.md': '# A\n## Setup\nsa\n',
  'docs/b.md': '---\ntitle: Bee\n---\n# B\n## Use\nub\n## Setup\nsb\n',
};

/** Runs `main.mld` or another file in a project with these files. */
async function script(
  text: string,
  files: Readonly<Record<string, string>> = {},
  name = 'main.mld',
): Promise<Ran> {
  const fixture = makeFixture({ ...files, [name]: text });
  fixtures.push(fixture);
  return await runCommand(['script', name], fixture.root, fixture.env);
}

const printed = (...lines: string[]): Ran => ({
  code: 0,
  output: lines.map((line) => `${line}\n`).join(''),
});

describe('globs', () => {
  test('facts in templates, sections and headings of each file', async () => {
    const text = `var @names = <docs/*.md> as "<>.filename"
show @names.join(" ")
var @toc = <docs/*.md # ##??>
for @d in @toc => show \`@d.file: @d.names\`
var @setups = <docs/*.md # Setup>
show @setups.length`;
    const out = printed('a.md b.md', 'a.md: ["Setup"]', 'b.md: ["Use","Setup"]', '2');
    expect(await script(text, DOCS)).toEqual(out);
    const slashed = text.replace(/^/gm, '/');
    expect(await script(slashed, DOCS, 'main.md')).toEqual(out);
  });

  test('a record of headings says where they are; files without any are left out', async () => {
    const text = `var @toc = <docs/* # ##??>
show @toc[1].relative
show @toc[1].absolute.endsWith("docs/b.md")
show @toc.length
show <docs/*.txt # ??>
show <nothing/*.md # ??>
show <docs/a.md # ??>
show <docs/*.md # ##??> as "<>.file: <>.names[0]"`;
    expect(
      await script(text, { ...DOCS, 'docs/c.txt': 'no heading', 'docs/d.json': '{}' }),
    ).toEqual(
      printed(
        './docs/b.md',
        'true',
        '2',
        '[]',
        '[]',
        '[\n  "A",\n  "Setup"\n]',
        'a.md: Setup\n\nb.md: Use',
      ),
    );
  });

  test('go into pipelines and arguments, and come out of modules, relative to their file', async () => {
    const files = {
      ...DOCS,
      'lib/docs/z.md': '## L\nx\n',
      'lib/m.mld': 'var @names = <docs/*.md> as "<>.filename"\nvar @toc = <docs/*.md # ##??>',
    };
    const text = `import { @names, @toc } from "./lib/m.mld"
show \`@names[0] @toc[0].names @toc[0].relative\`
exe @join(xs) = js { return xs.map(x => x.names.join("+")).join(" ") }
show <docs/*.md # ##??> | @join
exe @count(xs) = js { return xs.length }
show <docs/*.md> as "<>.filename" | @count
show \`@count(<docs/*.md # Setup>) <lib/docs/*.md # L>\``;
    expect(await script(text, files)).toEqual(
      printed('z.md ["L"] ./lib/docs/z.md', 'Setup Use+Setup', '2', '2 ## L\nx'),
    );
  });

  test('a section of each file that has it, with the facts of the file', async () => {
    const text = `for @s in <docs/*.md # Use> => show \`@s.mx.filename @s.mx.type @s.mx.fm.title: @s\`
show <docs/*.md # "Use"?>
show <docs/*.md # Setup> as "### <>.filename of <>.dirname"
show <docs/*.md # Nowhere>`;
    expect(await script(text, DOCS)).toEqual(
      printed(
        'b.md text Bee: ## Use\nub',
        '## Use\nub',
        '### a.md of docs\nsa\n\n### b.md of docs\nsb',
        '[]',
      ),
    );
  });

  test('a field of the file comes before a fact of that name; what is neither is an error', async () => {
    const files = {
      'd/1.json': '{"filename":"own","list":[7]}',
      'd/2.json': '{"n":null}',
      'd/3.json': 'null',
    };
    const text = `show <d/1.json> as "<>.filename <>.list[0] <>.ext <>.mx.filename."
show <d/2.json> as "<>.n <>.filename"
var @all = <d/*.json>
show @all.length
show <docs/b.md> as "<>.fm.title, <>.tokest <>.nothing"`;
    const { code, output } = await script(text, { ...DOCS, ...files });
    expect(output).toMatch(
      /^own 7 json 1\.json\.\nnull 2\.json\n3\nmain\.mld:5:\d+: error: text has no field `nothing`/,
    );
    expect(code).toBe(1);
  });

  test('as on several sections is an error of the run, of one it is its heading', async () => {
    const guide = { 'guide.md': '## Setup\na\n## Use\nb\n' };
    const one = await script('show <guide.md # Setup; !# Use> as "# One"', guide);
    expect(one).toEqual(printed('# One\na'));
    for (const wrong of [
      'show <guide.md # Setup, Use> as "## Both"',
      'show <*.md # Setup, "Use"?> as "## Both"',
      'var @x = [ => <guide.md # Setup, Use>? as "x" ]\nshow @x',
    ]) {
      const { code, output } = await script(`show "first"\n${wrong}`, guide);
      expect(output).toMatch(/^first\n.*`as` can rename only one section/);
      expect(code).toBe(1);
    }
  });

  test('marks of files stay with their names, headings and sections', async () => {
    const text = `var secret @k = "## Key\\nk"
output @k to "d/a.md"
var @toc = <d/*.md # ??>
show \`@toc[0].names.mx.labels @toc[1].mx.labels\`
var @s = <d/*.md # Key>
show @s[0].mx.labels
var @n = <d/*.md> as "<>.filename"
show \`@n[0].mx.labels @n[1].mx.labels\`
guard before secret = when [ @mx.op.type == "show" => deny "no"  * => allow ]
show @n[0]`;
    const { code, output } = await script(text, { 'd/b.md': '## B\n' });
    expect(output).toMatch(
      /^\["secret"\] \[\]\n\["secret"\]\n\["secret"\] \[\]\nmain\.mld:10:.*denied/,
    );
    expect(code).toBe(4);
  });

  test('the name of a section marks what it chose, and what it did not find', async () => {
    const text = `var secret @k = "Setup"
var untrusted @u = "Nope"
var @one = <docs/a.md # @k>
var @all = <docs/*.md # "@k">
var @left = <docs/b.md # Use; !# @k>
var @none = <docs/*.md # @u>
show \`@one.mx.labels @all[0].mx.labels @left.mx.labels @none.length @none.mx.labels\``;
    const out = '["secret"] ["secret"] ["secret"] 0 ["untrusted"]';
    expect(await script(text, DOCS)).toEqual(printed(out));
  });
});

describe('JSON files that cannot be read', () => {
  const DATA = { 'data/1.json': '{"n":1}', 'data/2.json': '{oops' };

  test('are texts among the files of a glob, with the reason', async () => {
    const text = `var @all = <data/*.json>
for @f in @all => show \`@f.mx.filename @f.mx.type\`
show @exists(@all[1].mx.parseError)
exe @kind(f) = js { return f.type + " " + f.text.length }
show @kind(@all[1].keep)`;
    expect(await script(text, DATA)).toEqual(
      printed('1.json object', '2.json text', 'true', 'text 5'),
    );
  });

  test('lines count too, the reason of all others is null, alone it is an error', async () => {
    const text = `var @all = <data/*>
show @all[0].mx.parseError ?? "none"
show @all[1].mx.parseError.startsWith("not valid JSON")
show \`@all[2].mx.type @all[2].mx.parseError\`
show \`@all[3].mx.type @all[3] @all[4].mx.type\`
var @part = <data/1.json>.s
show @part.mx.type
show <data/1.json>.s.mx.type
show <data/2.json>`;
    const files = {
      ...DATA,
      'data/1.json': '{"s":"x"}',
      'data/3.jsonl': '{"a":1}\n{"a":\n',
      'data/4.txt': 'plain',
      'data/5.json': '"q"',
    };
    const { code, output } = await script(text, files);
    expect(output).toMatch(
      /^none\ntrue\ntext not valid JSON.*\ntext plain string\nstring\nstring\nmain\.mld:9:\d+: error: `2\.json` is not valid JSON/,
    );
    expect(code).toBe(1);
  });

  test('keep the marks of what was written', async () => {
    const text = `var secret @k = "{oops"
output @k to "data/3.json"
var @all = <data/*.json>
show \`@all[2].mx.labels @all[0].mx.labels\`
var @why = @all[2].mx.parseError
show @why.mx.labels
exe @type(f) = js { return f.type }
var @t = @type(@all[2].keep)
show \`@t @t.mx.labels\``;
    expect(await script(text, DATA)).toEqual(
      printed('["secret"] []', '["secret"]', 'text ["secret"]'),
    );
  });
});

describe('modules', () => {
  const LIB = {
    'lib.mld': '---\ntitle: Tools\n---\nvar @x = 1\nvar @__meta__ = "own"\nexport { @x }\n',
  };

  test('__meta__ of a namespace is the front matter, whatever is exported', async () => {
    const files = {
      ...LIB,
      'all.mld': '---\ntitle: All\n---\nvar @__meta__ = "own"\n',
      'bare.mld': 'var @x = 1\n',
      'agents/bob/index.mld': '---\ntitle: Bob\ntags: [a, b]\n---\nvar @n = 1\n',
      'up.mld':
        'import "./lib.mld" as @lib\nvar @title = @lib.__meta__.title\nexport { @title, @lib }\n',
    };
    const text = `import "./lib.mld" as @lib
import "./all.mld" as @all
import { * as @bare } from "./bare.mld"
import "./agents" as @agents
import { @title, @lib as @again } from "./up.mld"
show @lib.__meta__.title
show \`@all.__meta__.title @lib["__meta__"].title @title @again.__meta__.title\`
show @bare.__meta__
show @agents.bob.__meta__.title
show @agents.bob.__meta__.tags[1] | @upper
show @agents.__meta__
show @lib.__meta__.nothing ?? "none"
show @lib.__other__`;
    const { code, output } = await script(text, files);
    expect(output).toMatch(
      /^Tools\nAll Tools Tools Tools\n\{\}\nBob\nB\n\{\}\nnone\nmain\.mld:13:\d+: error: .*does not export `__other__`/,
    );
    expect(code).toBe(1);
  });

  test('__meta__ has the marks of the module and of the namespace', async () => {
    const files = {
      'write.mld':
        'var secret @m = "---\\ntitle: T\\n---\\nvar @x = 1"\noutput @m to "made.mld"\nshow "ok"',
    };
    const text = `import "./made.mld" as @made
var @t = @made.__meta__.title
show \`@t.mx.labels @t.mx.taint.includes("src:file")\`
import "./lib.mld" as @lib
var untrusted @l = @lib
var @u = @l.__meta__.title
show \`@u.mx.labels\``;
    const fixture = makeFixture({ ...files, ...LIB, 'main.mld': text });
    fixtures.push(fixture);
    const run = (name: string) => runCommand(['script', name], fixture.root, fixture.env);
    expect(await run('write.mld')).toEqual(printed('ok'));
    expect(await run('main.mld')).toEqual(printed('["secret"] true', '["untrusted"]'));
  });

  test('a cached import of a path is an error of form', async () => {
    for (const wrong of [
      'import cached(1h) { @x } from "./lib.mld"',
      'import cached { @x } from <lib.mld>',
      'import cached(5m) "@root/lib.mld" as @lib',
      'import cached(1h) { @x } from @payload',
    ]) {
      const { code, output } = await script(`show "first"\n${wrong}`, LIB);
      expect(output).toContain('`import cached` needs a URL');
      expect(output).toContain('hint: leave out `cached');
      expect(output).not.toMatch(/^first/);
      expect(code).toBe(3);
    }
    const late = await script('var @to = "./lib.mld"\nimport cached(1h) { @x } from "@to"', LIB);
    expect(late).toMatchObject({ code: 1, output: expect.stringContaining('needs a URL') });
    const far = await script('import cached(1h) { @x } from "https://a.test/lib.mld"', LIB);
    expect(far).toMatchObject({ code: 1, output: expect.stringContaining('cannot be imported') });
  });
});

const ADD_NOTE = {
  name: 'add_note',
  description: 'Adds a note',
  inputSchema: {
    type: 'object',
    properties: { title: { type: 'string' }, stars: { type: 'number' } },
    required: ['title'],
  },
};

async function connect(project: Fixture, state: ServerState): Promise<void> {
  const { args } = installServer(project, state);
  const words = ['mcp', 'add', 'notes', '--command', process.execPath, '--read', 'server/**'];
  const writes = state.onCall ? ['--write', 'server/**'] : [];
  const all = [...words, ...writes, '--yes', '--', ...args];
  const added = await runCommand(all, project.root, project.env);
  expect(added.code, added.output).toBe(0);
}

/** Creates a project with the connector `notes`, whose tools return their arguments. */
async function connected(tools: JsonObject[] = [ADD_NOTE], more: Partial<ServerState> = {}) {
  const project = makeConnected();
  fixtures.push(project);
  await connect(project, { tools, ...more });
  return {
    ...project,
    script: (text: string, name = 'main.mld'): Promise<Ran> => {
      project.write(name, text);
      return project.km('script', name);
    },
  };
}

describe('tools of a connector', () => {
  test('are functions, each under its own name and in camel case', async () => {
    const { script } = await connected();
    const text = `import tools { @add_note } from mcp "notes"
import tools from mcp "notes" as @n
show @add_note("tea", "4").stars + 1
show @n.addNote({ title: "tea", stars: 4 }).title
show @n.addNote({ title: "x", stars: 1 }).mx.taint.includes("src:mcp")`;
    expect(await script(text)).toEqual(printed('5', 'tea', 'true'));
    expect(await script(text.replace(/^/gm, '/'), 'main.md')).toEqual(printed('5', 'tea', 'true'));
  });

  test('take arguments by position, by name, and texts where something else is wanted', async () => {
    const types = {
      name: 'types',
      description: 'Every type',
      inputSchema: {
        type: 'object',
        properties: {
          n: { type: 'integer' },
          yes: { type: 'boolean' },
          tags: { type: 'array', items: { type: 'string' } },
          at: { $ref: '#/$defs/place' },
          any: {},
          ids: { type: 'array', items: { type: 'number' } },
          maybe: { anyOf: [{ type: 'number' }, { type: 'null' }] },
          either: { type: ['string', 'number'] },
        },
        $defs: { place: { type: 'object', properties: { x: { type: 'number' } } } },
      },
    };
    const one = {
      name: 'one-object',
      description: 'One',
      inputSchema: { type: 'object', properties: { data: { type: 'object' } } },
    };
    const none = { name: 'none', description: 'None', inputSchema: { type: 'object' } };
    const { script } = await connected([types, one, none]);
    const text = `import tools from mcp "notes" as @n
show \`= @n.types("7", "true", "a, b", '{"x": 1}', "5", "6", "1.5", "8")\`
show \`= @n.types({ n: "7", tags: ["x"], maybe: null })\`
show \`= @n.types(@n.nothing?, false, '["p","q"]')\`
show \`= @n["one-object"]({ k: 1 })\`
show \`= @n.oneObject('{"k": 2}')\`
show \`= @n.none() @n.none({})\`
var @all = for @t in [1, 2] => @n.types(@t)
show @all[1].n
var @c = { n: "3" }
show @c | @n.types | @pretty
show "x" | @n.none | @typeof
when @n.types(4).n == 4 => show "four"`;
    expect(await script(text)).toEqual(
      printed(
        '= {"n":7,"yes":true,"tags":["a, b"],"at":{"x":1},"any":"5","ids":[6],"maybe":1.5,"either":"8"}',
        '= {"n":7,"tags":["x"],"maybe":null}',
        '= {"yes":false,"tags":["p","q"]}',
        '= {"data":{"k":1}}',
        '= {"data":{"k":2}}',
        '= {} {}',
        '2',
        '{"n": 3}',
        'object',
        'four',
      ),
    );
  });

  test('what does not fit the schema is an error, and nothing is sent', async () => {
    const onCall = { tools: [ADD_NOTE], name: 'was called' };
    const { script, root } = await connected([ADD_NOTE], { onCall });
    const head = 'import tools { @add_note } from mcp "notes"\nshow "first"\n';
    for (const [call, said] of [
      ['@add_note("tea", "many")', 'stars'],
      ['@add_note(7)', 'title'],
      ['@add_note()', 'title'],
      ['@add_note({ title: "x", colour: "red" })', 'colour'],
      ['@add_note("a", 1, 2)', 'takes fewer arguments than 3; its parameters are title, stars'],
      ['@add_note(["a"])', 'title'],
    ] as const) {
      const { code, output } = await script(`${head}show ${call}`);
      expect(output).toMatch(/^first\nmain\.mld:3:/);
      expect(output).toContain(said);
      expect(code).toBe(1);
    }
    const state = () => readFileSync(join(root, 'server/tools.json'), 'utf8');
    expect(JSON.parse(state())).not.toHaveProperty('name');
    await script(`${head}show @add_note("a")`);
    expect(JSON.parse(state())).toHaveProperty('name', 'was called');
  });

  test('answer with structured content, with text, with data, with whatever there is', async () => {
    const plain = (name: string) => ({ name, description: name, inputSchema: { type: 'object' } });
    const results = {
      structured: { content: [{ type: 'text', text: 'x' }], structuredContent: { n: [1, 2] } },
      text: { content: [{ type: 'text', text: 'two words' }] },
      texts: {
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      },
      image: { content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] },
      nothing: { content: [] },
      fails: { isError: true, content: [{ type: 'text', text: 'no such note' }] },
    };
    const { script } = await connected(Object.keys(results).map(plain), { results });
    const text = `import tools from mcp "notes" as @n
show @n.structured().n[1]
show @n.text()
show @n.texts()
show @n.image()[0].mimeType
show @n.nothing() ?? "null"
show \`@n.text().mx.taint @n.structured().n.mx.labels\`
show @n.fails()`;
    const { code, output } = await script(text);
    expect(output).toMatch(
      /^2\ntwo words\none\ntwo\nimage\/png\nnull\n\["untrusted","src:mcp".*\] \["untrusted"\]\nmain\.mld:8:.*no such note/,
    );
    expect(code).toBe(1);
  });

  test('names: what is missing, what clashes, what stands for two tools', async () => {
    const twin = (name: string) => ({ ...ADD_NOTE, name });
    const { script } = await connected([
      ADD_NOTE,
      twin('a_b'),
      twin('a-b'),
      twin('aC'),
      twin('a_c'),
    ]);
    const right = `import tools { add_note as @add, a_b, a-b as @dash, aC } from mcp "notes"
show @add("t").title
show @a_b("u").title
show @dash("v").title
show @aC("w").title`;
    expect(await script(right)).toEqual(printed('t', 'u', 'v', 'w'));
    for (const [wrong, said] of [
      ['import tools { @nothing } from mcp "notes"', '`mcp notes` does not export `nothing`'],
      ['import tools { @aB } from mcp "notes"', 'does not export `aB`'],
      ['import tools from mcp "notes" as @n\nshow @n.addNotes', 'did you mean `addNote`'],
      ['var @add_note = 1\nimport tools { @add_note } from mcp "notes"', '`@add_note`'],
      ['import tools from mcp "other" as @n', 'connector `other` not found'],
    ] as const) {
      const { code, output } = await script(wrong);
      expect(output).toContain(said);
      expect(code).toBe(1);
    }
    for (const [wrong, said] of [
      ['import tools { * } from mcp "notes"', 'not allowed'],
      ['import tools from mcp "notes"', 'needs names in braces, or `as @name`'],
      ['import tools { @a } from "./x.mld"', 'expected `mcp`'],
      ['import tools { @a } from mcp', 'expected a quoted path'],
    ] as const) {
      const { code, output } = await script(wrong);
      expect(output).toContain(said);
      expect(code).toBe(3);
    }
  });

  test('a command line or an address is no connector: a person connects servers', async () => {
    for (const name of ['npx -y @@scope/server', 'https://mcp.example.com', './server.js', 'a:b']) {
      const { code, output } = await script(`show 1\nimport tools from mcp "${name}" as @n`);
      expect(output).toMatch(/^1\n/);
      expect(output).toContain('`km mcp add NAME …`');
      expect(code).toBe(1);
    }
    const { code, output } = await script('import tools { @x } from mcp "notes"');
    expect(output).toContain('connect a server with `km mcp add`');
    expect(code).toBe(1);
  });

  test('a call is the operation tool: guards, hooks and policies see it as by @tool', async () => {
    const { script } = await connected();
    const head = 'import tools from mcp "notes" as @n\n';
    const wrong = [
      'guard before op:tool:mcp/notes/add_note = when [ @mx.args.stars > 4 => deny "no" ]',
      'guard before op:tool = when [ @mx.op.name == "mcp/notes/add_note" && @input[1] > 4 => deny "no" ]',
      'guard before @addNote = when [ * => deny "no" ]',
      'guard before @add_note = when [ @mx.op.type == "tool" => deny "no" ]',
      'guard after src:mcp = when [ @mx.op.type == "tool" => deny "no" ]',
      'policy @rules = { deny: ["op:tool:mcp/notes"] }',
      'policy @rules = { labels: { "src:user": { deny: ["op:tool"] } } }',
    ];
    for (const rule of wrong) {
      const { code, output } = await script(
        `${head}${rule}\nshow @n.addNote(@payload.t ?? "t", 5)`,
      );
      expect(`${rule}\n${output}`).toContain('denied');
      expect(code).toBe(4);
    }
    const right = `${head}guard before op:tool = when [ * => allow ["guarded", 1] ]
hook @h after op:tool = [ log "called" ]
show @n.addNote("t", 5).title`;
    const asTool = right.replace(
      /show.*$/,
      'var @r = @tool("mcp/notes/add_note", { title: "t", stars: 5 })\nvar @d = @r.content[0].text | @parse\nshow @d.title',
    );
    expect(await script(right)).toEqual(printed('called', 'guarded'));
    expect(await script(asTool)).toEqual(printed('called', 'guarded'));
  });

  test('labels go in and come back out', async () => {
    const { script, write, kmJson } = await connected();
    const refused = await script(
      'import tools from mcp "notes" as @n\nvar untrusted @t = "x"\nshow @n.addNote(@t)',
    );
    expect(refused.output).toContain('no-untrusted-destructive');
    expect(refused.code).toBe(7);
    write('.ai/tools/mcp/notes/mapping.yaml', 'tools:\n  "*": { effect: read, risk: [exfil] }\n');
    expect(await kmJson('mcp', 'sync', 'notes', '--yes')).toMatchObject({ ok: true });
    const text = `import tools from mcp "notes" as @n
var pii @who = "Ann"
var untrusted @stars = "3"
var @a = @n.addNote(@who, 1)
var @b = @n.addNote({ title: "x", stars: @stars })
show \`@a.mx.labels @b.stars @b.mx.labels @a.mx.sources.includes("tool:mcp/notes/add_note")\`
guard before untrusted = when [ @mx.op.type == "tool" => deny "converted" ]
show @n.addNote("x", @stars)`;
    const { code, output } = await script(text);
    // A server can return everything that it has received.
    expect(output).toMatch(/^\["untrusted","pii"\] 3 \["untrusted","pii"\] true\n.*converted/s);
    expect(code).toBe(4);
    const secret =
      'import tools from mcp "notes" as @n\nvar secret @k = "k-1"\nshow @n.addNote(@k)';
    const kept = await script(secret);
    expect(kept.output).toContain('no-secret-exfil');
    expect(kept.output).not.toContain('k-1');
    expect(kept.code).toBe(4);
  });

  test('come through a module like any function, which need not know who calls', async () => {
    const { script, write } = await connected();
    write(
      'lib.mld',
      'import tools from mcp "notes" as @n\nexe @add(t) = @n.addNote(@t, 2)\nexport { @add, @n }',
    );
    const text = `import { @add, @n as @notes } from "./lib.mld"
show @add("a").stars
var @f = @notes.add_note
show \`@f("b").title @notes.addNote("c").title\`
var @titles = ["d", "e"]
show foreach @f(@titles) with { separator: " ", template: "{{index}}:{{result}}" }
run @notes.addNote("g")
@f("h", "1")
show @f.type`;
    expect(await script(text)).toEqual(
      printed(
        '2',
        'b c',
        '0:{"title":"d"} 1:{"title":"e"}',
        '{"title":"g"}',
        '{"title":"h","stars":1}',
        'executable',
      ),
    );
    const judged = `guard before op:import = when [ @mx.op.target == "mcp:notes" => deny "no tools here" ]
import { @add } from "./lib.mld"`;
    const { code, output } = await script(judged);
    expect(output).toContain('no tools here');
    expect(code).toBe(4);
  });

  test('in a thread a call is a step, with the rights that the directive grants', async () => {
    const text = `import tools { @add_note } from mcp "notes"
var @r = @add_note("tea", "4")
return { text: \`@r.title @r.stars\` }`;
    const tool = '<execute resource="tool" id="mcp/notes/add_note"/>';
    const may = {
      outputs: TEXT,
      permissions: `${tool}<execute resource="mcp.notes" action="call"/>`,
    };
    const made = await stage(
      {
        '.ai/directives/may.md': scripted('may', text, may),
        '.ai/directives/not.md': scripted('not', text, { outputs: TEXT, permissions: tool }),
      },
      [],
    );
    const title = { type: 'string', description: 'STRANGER', default: 'STRANGER' };
    const { properties, ...rest } = ADD_NOTE.inputSchema;
    const inputSchema = { ...rest, title: 'STRANGER', properties: { ...properties, title } };
    await connect(made.fixture, { tools: [{ ...ADD_NOTE, description: 'STRANGER', inputSchema }] });
    const done = await run(made, 'may');
    expect(done).toMatchObject({ status: 'completed', outputs: { text: 'tea 4' } });
    const events = await eventsOf(made, done.thread_id);
    const tools = events.flatMap(({ data }) => (typeof data.tool === 'string' ? data.tool : []));
    expect([...new Set(tools)]).toEqual(['script:connector', 'mcp/notes/add_note']);
    // The journal has names and types of the import, and no text of the server.
    expect(JSON.stringify(events)).not.toContain('STRANGER');
    expect(await run(made, 'not')).toMatchObject({ status: 'denied', code: 'permission_denied' });
  });

  test('nothing of them is loaded unless a script imports tools', () => {
    const fixture = makeFixture();
    fixtures.push(fixture);
    const tell =
      'import{registerHooks}from"node:module";registerHooks({load(url,c,next){process.stderr.write(url+"\\n");return next(url,c)}})';
    const loaded = (text: string): string => {
      const words = ['--import', `data:text/javascript,${encodeURIComponent(tell)}`, LAUNCHER];
      const env = { ...fixture.env, ...FROM_SOURCE };
      const options = {
        cwd: fixture.root,
        env,
        encoding: 'utf8',
        timeout: timeoutMs(60_000),
      } as const;
      return spawnSync(process.execPath, [...words, 'script', '-e', text], options).stderr;
    };
    const parts = /packages\/mcp\/src\/(?!extension\.ts)|connector-tools/;
    const trivial = loaded('exe @f() = 1\nshow @f()');
    expect(trivial).toContain('packages/script/src/execute-script.ts');
    expect(trivial).not.toMatch(parts);
    expect(loaded('import tools from mcp "notes" as @n')).toMatch(parts);
  });

  test('check and the editor know them', async () => {
    const { km, write, root } = await connected([ADD_NOTE, { ...ADD_NOTE, name: 'list-all' }]);
    write('right.mld', 'import tools { @add_note, listAll } from mcp "notes"\nshow @add_note("a")');
    write(
      'wrong.mld',
      'import tools { @ad_note } from mcp "notes"\nimport tools from mcp "npx x" as @y',
    );
    expect(await km('check', 'right.mld')).toMatchObject({ code: 0 });
    const { code, output } = await km('check', 'wrong.mld');
    expect(code).toBe(3);
    expect(output).toContain('the connector `notes` has no tool `ad_note`');
    expect(output).toContain('did you mean `@add_note`');
    expect(output).toContain('`npx x` is not a connector');
    expect(output).toContain('`km mcp add NAME …`');
    const modules = createModules(join(root, '..', 'home'), () => undefined);
    const complete = (text: string) => {
      const offset = text.indexOf('|');
      const view = viewOf(text.replace('|', ''), join(root, 'typed.mld'));
      return completeAt(view, offset, modules)?.items.map(({ label }) => label);
    };
    expect(complete('import tools { | } from mcp "notes"')).toEqual(['add_note', 'list-all']);
    expect(complete('import tools { @add_note, @li| } from mcp "notes"')).toContain('list-all');
    expect(complete('import tools { | } from mcp "other"')).toEqual([]);
    const member = complete('import tools from mcp "notes" as @n\nshow @n.|');
    expect(member).toEqual(['add_note', 'list-all']);
  });
});

describe('not now', () => {
  const LATER = [
    ['auth', 'auth @mail = "MAIL_KEY"'],
    ['auth', 'auth @mail = { from: "env:MAIL_KEY", as: "KEY" }'],
    ['using auth:…', 'run cmd {post} using auth:mail'],
    ['using auth:…', 'exe @f() = run sh { post } using auth:mail'],
    ['file', 'file "notes/a.md" = "x"'],
    ['file', 'file @path = "x"'],
    ['files', 'files "src/" = [{ "a.js": "x" }]'],
    ['files', 'files <@root/src> = [{ "a.js": "x" }]'],
    ['box', 'box [ output "x" to "a.txt" ]'],
    ['box', 'box { net: "none" } [ show 1 ]'],
    ['box', 'box @config with { deny: ["sh"] } [ show 1 ]'],
    ['box', 'var @b = box [ => 1 ]'],
    ['box', 'exe @f() = [ => box [ => 1 ] ]'],
    ['box', 'var @x = when [ true => box { } [ => 1 ] ]'],
    ['checkpoint', 'checkpoint "half"'],
    ['checkpoint', 'if true [ checkpoint `half` ]'],
    ['checkpoint', 'for @x in [1] => checkpoint @x'],
    ['file', 'if true [ file "a" = 1 ]'],
    ['var tools', 'exe @f() = 1\nvar tools @t = { a: { mlld: @f } }'],
    ['var tools', 'var tools trusted @t = { a: @upper }'],
    ['authorizations', 'policy @p2 = { authorizations: { allow: { "@f": true } } }'],
    ['authorizations', 'policy @p2 = union({ "authorizations": {} }, { deny: ["sh"] })'],
  ] as const;

  test.each(LATER)('`%s` is refused by the run and by check: %s', async (word, text) => {
    const files = { 'a.mld': `show "first"\n${text}`, 'a.md': text.replace(/^/gm, '/') };
    const fixture = makeFixture(files);
    fixtures.push(fixture);
    for (const name of Object.keys(files)) {
      for (const command of ['script', 'check']) {
        const { code, output } = await runCommand([command, name], fixture.root, fixture.env);
        expect(output).toContain(`\`${word}\` is not part of this version`);
        expect(output).toContain('[script_unsupported]');
        expect(output).toContain('hint: ');
        expect(output).not.toMatch(/^first/);
        expect(code).toBe(3);
      }
    }
  });

  test('the words are text where nothing they need follows; in strict mode an ordinary error', async () => {
    const lines = [
      '/auth is needed',
      '/box office',
      '/file a report',
      '/files',
      '/checkpoint at 9',
    ];
    const prose = ['box [', 'auth @you', '/boxes "x"', '/filed "x"'];
    const text = `${[...lines, ...prose].join('\n')}\n`;
    expect(await script(text, {}, 'main.md')).toEqual({ code: 0, output: text });
    for (const line of lines) {
      const { code, output } = await script(line);
      expect(output).not.toContain('is not part of this version');
      expect(code).toBe(3);
    }
    const names =
      'var @file = "a"\nvar @box = { file: 1, auth: 2, tools: 3 }\nshow `@file @box.auth`';
    expect(await script(`${names}\nvar box,tools @x = 1\nshow @x.mx.labels`)).toEqual(
      printed('a 2', '[\n  "box",\n  "tools"\n]'),
    );
  });

  test('authorizations in a policy that is known only at run time', async () => {
    const { code, output } = await script(
      'var @o = { authorizations: {} }\nshow "first"\npolicy @rules = @o',
    );
    expect(output).toMatch(/^first\n.*`authorizations` is not part of this version/);
    expect(code).toBe(3);
  });

  test('a module that uses them is an error of whoever imports it', async () => {
    const { code, output } = await script('show 1\nimport "./m.mld" as @m', {
      'm.mld': 'var @a = 1\ncheckpoint "x"',
    });
    expect(output).toMatch(/^1\n/);
    expect(output).toContain('`checkpoint` is not part of this version');
    expect(code).toBe(3);
  });

  test('resuming: options are no options, the front matter is refused, data of that name stays', async () => {
    const fixture = makeFixture({
      'a.mld': 'show 1',
      'b.mld': '---\ntitle: x\nresume: auto # later\n---\nshow 1',
    });
    fixtures.push(fixture);
    const km = (...words: string[]) => runCommand(words, fixture.root, fixture.env);
    for (const words of [['--resume'], ['--resume', '@f'], ['--resume=@f:2'], ['--fresh']]) {
      const { code, output } = await km('script', 'a.mld', ...words);
      expect(output).toMatch(/^error: `--(?:resume|fresh)` is not part of this version/);
      expect(code).toBe(2);
      const json = await km('script', '--json', 'a.mld', ...words);
      expect(json.output).toContain('is not part of this version');
    }
    for (const command of ['script', 'check']) {
      const { code, output } = await km(command, 'b.mld');
      expect(output).toMatch(/b\.mld:3:1: error: `resume` is not part of this version/);
      expect(code).toBe(3);
    }
    const data = '---\nresume: cv.pdf\n---\nshow @fm.resume';
    expect(await script(data)).toEqual(printed('cv.pdf'));
  });
});
