// Help for the active keys, opened by `?`. The browser stores whether keys are off.
import { areKeysOn, type KeyActs, switchKeys } from '../keys.ts';
import { Dialog } from './dialog.tsx';

const SHOWN: Readonly<Record<string, string>> = {
  ArrowRight: '→',
  ArrowLeft: '←',
  ArrowUp: '↑',
  ArrowDown: '↓',
  Escape: 'Esc',
};

/** The order of `keys` is view, then page. A key in both is listed once. */
export function KeyHelp(props: { keys: readonly KeyActs[]; onClose: () => void }) {
  const { keys, onClose } = props;
  const listedKeys = new Set<string>();
  const groups = keys.map((acts) =>
    Object.entries(acts).filter(([key]) => {
      const isNew = !listedKeys.has(key);
      listedKeys.add(key);
      return isNew;
    }),
  );
  return (
    <Dialog title="Keys" onClose={onClose} class="keys">
      {groups
        .filter((group) => group.length > 0)
        .map((group) => (
          <dl key={group[0]?.[0]}>
            {group.map(([key, { says }]) => (
              <div key={key}>
                <dt>
                  {key.split(' ').map((one) => (
                    <kbd key={one}>{SHOWN[one] ?? one}</kbd>
                  ))}
                </dt>
                <dd>{says}</dd>
              </div>
            ))}
          </dl>
        ))}
      <label class="check">
        <input
          type="checkbox"
          checked={areKeysOn.value}
          onChange={(event) => switchKeys(event.currentTarget.checked)}
        />
        Use single keys outside of fields. None of them approves, stops or kills.
      </label>
    </Dialog>
  );
}
