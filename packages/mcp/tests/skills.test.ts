// Tests directives and knowledge as skills with the official client of the extension, which
// compares every file with the server's list.
import { makeFixture } from '@kernmantle/test-support/project';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { expect, onTestFinished, test } from 'vitest';
import { connectPeer, ERAS } from './support/peer.ts';

const DIRECTIVE = `<directive name="tidy_up" version="1.2.0">
  <metadata><description>Tidies: "everything" up</description><category>t</category></metadata>
  <process><step name="go">Tidy</step></process>
</directive>
`;

async function project(policy: string) {
  const fixture = makeFixture({
    '.ai/directives/home/tidy_up.md': DIRECTIVE,
    '.ai/knowledge/style.md':
      '---\ntitle: Style\ndescription: How we write\n---\n# Style\n\nShort.\n',
  });
  for (let n = 0; n < 30; n++) fixture.write(`.ai/knowledge/many/K ${n}.md`, `# K${n}\n\nText.\n`);
  fixture.write(`${fixture.home}/policy.yaml`, policy);
  const runtime = await fixture.open();
  onTestFinished(async () => {
    await runtime.close();
    fixture.remove();
  });
  return runtime;
}

test.each(ERAS)(
  'skills are listed in pages, and every file is what was listed (%s)',
  async (era) => {
    const runtime = await project('surfaces: { mcp: { directives: all } }\n');
    const { client, close } = await connectPeer(runtime, { era });
    onTestFinished(close);
    const skills = new SkillsClient(client);
    expect(skills.supported).toBe(true);
    const { skills: entries } = await skills.list();
    const uris = entries.map(({ uri }) => uri);
    expect(new Set(uris).size).toBe(uris.length);
    expect(uris).toContain('skill://directive/home/tidy_up/tidy-up/SKILL.md');
    expect(uris).toContain('skill://knowledge/style/SKILL.md');
    expect(uris.filter((uri) => uri.includes('/many/'))).toHaveLength(30);
    for (const entry of entries) {
      const file = await skills.read(entry);
      expect(file.verified).toBe(true);
      expect(file.frontmatter?.name).toBe(entry.uri.split('/').at(-2));
    }
    const tidy = entries.find(({ uri }) => uri.includes('tidy'));
    expect(tidy?.frontmatter).toMatchObject({
      name: 'tidy-up',
      description: 'Tidies: "everything" up',
    });
    if (!tidy) throw new Error('no skill');
    expect((await skills.read(tidy)).body).toContain('<step name="go">Tidy</step>');
    const style = await skills.get('skill://knowledge/style/SKILL.md');
    expect((await skills.read(style.skill)).body).toBe('# Style\n\nShort.\n');
    await expect(skills.get('skill://knowledge/no/such/SKILL.md')).rejects.toMatchObject({
      code: -32602,
    });
  },
);

test.each(ERAS)(
  'a directive that nobody signed is no skill unless the policy says so (%s)',
  async (era) => {
    const runtime = await project('unsigned: restrict\n');
    const { client, close } = await connectPeer(runtime, { era });
    onTestFinished(close);
    const skills = new SkillsClient(client);
    const { skills: entries } = await skills.list();
    expect(entries.some(({ uri }) => uri.includes('tidy'))).toBe(false);
    await expect(
      skills.get('skill://directive/home/tidy_up/tidy-up/SKILL.md'),
    ).rejects.toMatchObject({ code: -32602 });
    await expect(
      client.readResource({ uri: 'skill://directive/home/tidy_up/tidy-up/SKILL.md' }),
    ).rejects.toMatchObject({ code: -32602 });
  },
);
