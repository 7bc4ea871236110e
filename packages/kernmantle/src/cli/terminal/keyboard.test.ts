import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { openKeyboard } from './keyboard.ts';

const SETTLE_MS = 300;

test('keys that come less than the pause after each other answer nothing; the next one does', async () => {
  const stdin = Object.assign(new EventEmitter(), {
    setRawMode() {},
    resume() {},
    pause() {},
  });
  vi.spyOn(process, 'stdin', 'get').mockReturnValue(stdin as unknown as typeof process.stdin);
  const keyboard = openKeyboard({ isEchoed: false });
  stdin.emit('data', Buffer.from('o'));
  let isSettled = false;
  const settled = keyboard.discard(SETTLE_MS).then(() => {
    isSettled = true;
  });
  // A timer that is due earlier always fires first, so a busy machine changes nothing.
  for (let count = 0; count < 10; count++) {
    await sleep(40);
    stdin.emit('data', Buffer.from('o'));
    expect(isSettled).toBe(false);
  }
  await settled;
  const key = keyboard.key();
  stdin.emit('data', Buffer.from('d'));
  expect(await key).toBe('d');
  keyboard.close();
  vi.restoreAllMocks();
});
