import { expect, test } from 'vitest';
import { serverName } from './connectors.ts';

test('the server of a connector is named by its config, its folder or its own name', () => {
  expect(serverName({}, 'mcp/github/connector')).toBe('github');
  expect(serverName({}, 'mcp/supabase_connector')).toBe('supabase');
  expect(serverName({ server: 'x' }, 'mcp/supabase_connector')).toBe('x');
});
