// How a permission is written, in both forms: for hints that can be pasted and for printing.
import { formatPermission, type Permission, permissionFor } from '../trust/index.ts';
import type { Form } from './directive-words.ts';

const ATTRIBUTES = ['resource', 'path', 'id', 'action', 'host', 'method'] as const;

/** A scalar that YAML reads back as this text. */
export const yamlText = (text: string): string =>
  /^[A-Za-z_][\w/.-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off)$/i.test(text)
    ? text
    : JSON.stringify(text);

export function permissionText(permission: Permission, form: Form): string {
  if (form === 'xml') return formatPermission(permission);
  const fields = ATTRIBUTES.flatMap((name) => {
    const value = permission[name];
    return value === undefined ? [] : [`${name}: ${yamlText(value)}`];
  });
  return `- ${permission.verb}: { ${fields.join(', ')} }`;
}

/** The line to add to `<permissions>` so that a directive holds this capability; none if no line can. */
export function grantLine(capability: string, form: Form): string | undefined {
  if (capability === 'spawn.thread') {
    return form === 'xml'
      ? '<orchestration enabled="true"/>'
      : '- orchestration: { enabled: true }';
  }
  const permission = permissionFor({ capability, scope: { path: '**' } });
  return permission && permissionText(permission, form);
}
