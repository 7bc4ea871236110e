// A button with an icon, a text and children. It submits a form only if `type` is `submit`.
import type { ButtonHTMLAttributes } from 'preact';
import { Icon, type IconName } from './icons.tsx';

/** A button without a text needs an `aria-label`. A busy one is disabled. */
export function Button(
  props: ButtonHTMLAttributes & {
    icon?: IconName;
    text?: string;
    isBusy?: boolean;
  },
) {
  const { icon, text, isBusy, children, ...rest } = props;
  return (
    <button
      type="button"
      class="btn"
      {...rest}
      {...(isBusy === undefined
        ? {}
        : { disabled: isBusy || rest.disabled === true, 'aria-busy': isBusy })}
    >
      {icon === undefined ? null : <Icon name={icon} />}
      {text}
      {children}
    </button>
  );
}
