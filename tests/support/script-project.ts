// Creates directives whose process is a script, for tests of whole threads.
import { type Stage, stage } from './thread-project.ts';

export interface ScriptParts {
  limits?: string;
  permissions?: string;
  hooks?: string;
  inputs?: string;
  outputs?: string;
  model?: string;
}

/** Returns a directive whose process is this script. */
export const scripted = (name: string, script: string, parts: ScriptParts = {}) => `
<directive name="${name}" version="1.0.0">
  <metadata>
    <description>A test</description>
    <category>test</category>
    ${parts.model ?? ''}
    <limits>${parts.limits ?? ''}</limits>
    <permissions>${parts.permissions ?? ''}</permissions>
    ${parts.hooks ? `<hooks>${parts.hooks}</hooks>` : ''}
  </metadata>
  ${parts.inputs ? `<inputs>${parts.inputs}</inputs>` : ''}
  <process>
    <script>
${script}
    </script>
  </process>
  ${parts.outputs ? `<outputs>${parts.outputs}</outputs>` : ''}
</directive>
`;

/** Creates a project with one such directive, `job`, and a model that gets no requests. */
export const alone = (
  script: string,
  parts: ScriptParts = {},
  replies: Parameters<typeof stage>[1] = [],
) => stage({ '.ai/directives/job.md': scripted('job', script, parts) }, replies);

export const eventsOf = async ({ threads }: Stage, id: string) => {
  const events = await threads.store.read(id);
  return events.ok ? events.output : [];
};

export const TEXT = '<text type="string">x</text>';
