// Where things come from: globs, sections, modules, the tools of connectors, on the real command line.
import { afterEach, describe, expect, test } from 'vitest';
import { type Ran, runCommand } from '../support/command-line.ts';
import { type Fixture, makeFixture } from '../support/project.ts';

const fixtures: Fixture[] = [];
afterEach(() => {
  for (const fixture of fixtures.splice(0)) fixture.remove();
});

const DOCS = {
  'docs/a.md': '# A\n## Setup\nsa\n',
  'docs/b.md': '---\ntitle: Bee\n---\n# B\n## Use\nub\n## Setup\nsb\n',
};

/** Runs `main.mld` (or another file) among some files. */
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
      expect(output).toMatch(/^first\n.*`as` gives one section another heading, not several/);
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
});

describe('JSON files that cannot be read', () => {
  const DATA = { 'data/1.json': '{"n":1}', 'data/2.json': '{oops' };

  test('are texts among the files of a glob, with the reason', async () => {
    const text = `var @all = <data/*.json>
for @f in @all => show \`@f.mx.filename @f.mx.type\`
show @all[1].mx.parseError != null
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
      /^none\ntrue\ntext not valid JSON.*\ntext plain string\nstring\nstring\nmain\.mld:9:\d+: error: `2\.json` is no valid JSON/,
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
      /^Tools\nAll Tools Tools Tools\n\{\}\nBob\nB\n\{\}\nnone\nmain\.mld:13:\d+: error: .*exports no `__other__`/,
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
      expect(output).toContain('`import cached` needs an address');
      expect(output).toContain('hint: drop `cached');
      expect(output).not.toMatch(/^first/);
      expect(code).toBe(3);
    }
    const late = await script('var @to = "./lib.mld"\nimport cached(1h) { @x } from "@to"', LIB);
    expect(late).toMatchObject({ code: 1, output: expect.stringContaining('needs an address') });
    const far = await script('import cached(1h) { @x } from "https://a.test/lib.mld"', LIB);
    expect(far).toMatchObject({ code: 1, output: expect.stringContaining('cannot be imported') });
  });
});
