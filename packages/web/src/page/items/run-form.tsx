// Form that starts a directive: one field per input, limits that can only be lowered, and a summary
// of the rights and the highest cost of the run.
import { useId, useState } from 'preact/hooks';
import type { ActionResult, ItemInput, ItemView, LimitMeter } from '../../model/api.ts';
import { limitName, limitOrigin, limitValue } from '../../model/format.ts';
import { type PageFault, post, uploadAll } from '../api.ts';
import { connection } from '../connection.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { FilePicker } from '../parts/file-picker.tsx';
import { ErrorState } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { go, pathOf } from '../router.tsx';
import { may, me } from '../state/session.ts';
import { readExplained } from './explained.ts';
import {
  enumTexts,
  type FieldFaults,
  faultsOf,
  isJsonInput,
  type RunFields,
  readWish,
  runCommand,
  startText,
} from './run-request.ts';

interface InputProps {
  readonly input: ItemInput;
  readonly id: string;
  readonly value: string;
  readonly describedBy: string;
  readonly isFaulty: boolean;
  onInput(text: string): void;
}

/** Control for the type of the input. Text areas keep line ends. */
function InputControl({ input, id, value, describedBy, isFaulty, onInput }: InputProps) {
  const options = enumTexts(input);
  const common = {
    id,
    'aria-describedby': describedBy,
    'aria-invalid': isFaulty,
    required: input.required,
  };
  if (options.length > 0 || input.type === 'boolean') {
    const all = options.length > 0 ? options : ['true', 'false'];
    return (
      <select {...common} value={value} onChange={(event) => onInput(event.currentTarget.value)}>
        {input.required && value !== '' ? null : <option value="">default</option>}
        {all.map((text) => (
          <option key={text} value={text}>
            {text}
          </option>
        ))}
      </select>
    );
  }
  if (isJsonInput(input) || value.includes('\n')) {
    return (
      <textarea
        {...common}
        rows={3}
        class="mono"
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    );
  }
  const isNumber = input.type === 'number' || input.type === 'integer';
  return (
    <input
      {...common}
      type="text"
      autoComplete="off"
      {...(isNumber ? { inputMode: 'decimal' as const } : {})}
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}

function InputField(props: {
  input: ItemInput;
  value: string;
  fault: string | undefined;
  onInput: (text: string) => void;
}) {
  const { input, value, fault, onInput } = props;
  const id = useId();
  return (
    <div class="run-field">
      <label for={id}>
        <ForeignText text={input.name} class="mono" />{' '}
        <span class="faint">
          {input.type}
          {input.required ? ', required' : ''}
        </span>
      </label>
      <div class="field">
        <InputControl
          input={input}
          id={id}
          value={value}
          describedBy={`${id}-says`}
          isFaulty={fault !== undefined}
          onInput={onInput}
        />
      </div>
      <p id={`${id}-says`} class={fault === undefined ? 'faint says' : 'bad says'}>
        <ForeignText text={fault ?? input.description ?? ''} />
      </p>
    </div>
  );
}

function LimitField(props: {
  limit: LimitMeter;
  value: string;
  fault: string | undefined;
  onInput: (text: string) => void;
}) {
  const { limit, value, fault, onInput } = props;
  const id = useId();
  const { name, max, from = '' } = limit;
  return (
    <div class="run-limit small">
      <label for={id}>{limitName(name)}</label>
      <div class="field">
        <input
          id={id}
          type="text"
          class="short"
          inputMode="decimal"
          autoComplete="off"
          placeholder={max === undefined ? 'none' : String(max)}
          aria-describedby={`${id}-says`}
          aria-invalid={fault !== undefined}
          value={value}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      </div>
      <span id={`${id}-says`} class={fault === undefined ? 'faint' : 'bad'}>
        {fault ??
          `${max === undefined ? 'no limit' : `at most ${limitValue(name, max)}`}${from === '' ? '' : ` (${limitOrigin(from)})`}`}
      </span>
    </div>
  );
}

/** Summary of the highest cost and the rights of the run. */
function AtMost({ view, fields }: { view: ItemView; fields: RunFields }) {
  const { grants } = readExplained(view.explained);
  const spend = view.limits.find(({ name }) => name === 'spend');
  const lowered = Number(fields.limits['spend'] ?? '') || undefined;
  const most = lowered === undefined ? spend?.max : Math.min(lowered, spend?.max ?? Infinity);
  return (
    <div class="at-most">
      <p>
        <b>Highest cost:</b>{' '}
        {most === undefined
          ? 'no limit of money; its turns and tokens limit the cost'
          : `${limitValue('spend', most)} ${me.value?.currency ?? ''}`}
      </p>
      <p>
        <b>Rights:</b>{' '}
        {grants.length === 0
          ? 'none; it can only use its conversation'
          : `${grants.length}, listed below`}
      </p>
      <ul>
        {grants.map(({ name }) => (
          <li key={name}>
            <ForeignText text={name} class="mono" />
          </li>
        ))}
      </ul>
    </div>
  );
}

const startFields = (view: ItemView): RunFields => ({
  inputs: Object.fromEntries(view.inputs.map((input) => [input.name, startText(input)])),
  limits: {},
  model: '',
  message: '',
});

function whyNot(view: ItemView): string | undefined {
  if (!view.can_run) return 'This item cannot run as a thread.';
  if (!may('steer')) return 'Your session has the role `view`; role `steer` is required.';
  return connection.value.state === 'live' ? undefined : 'Not connected.';
}

/** Form of a run. `directive` is the id of the item. */
export function RunForm(props: { directive: string; view: ItemView; onClose: () => void }) {
  const { directive, view, onClose } = props;
  const [fields, setFields] = useState(() => startFields(view));
  const [faults, setFaults] = useState<FieldFaults>({});
  const [fault, setFault] = useState<PageFault>();
  const [isBusy, setBusy] = useState(false);
  const [files, setFiles] = useState<readonly File[]>([]);
  const read = readWish(directive, view, fields);
  const change = (part: Partial<RunFields>) => setFields((last) => ({ ...last, ...part }));
  const reason = whyNot(view);
  const run = async () => {
    setFault(undefined);
    setFaults('faults' in read ? read.faults : {});
    if ('faults' in read) return;
    setBusy(true);
    const sent = await uploadAll(files);
    const answer = sent.ok
      ? await post<ActionResult>('threads', { ...read.wish, ...sent.output })
      : sent;
    setBusy(false);
    if (answer.ok) return go(pathOf('t', answer.output.thread_id));
    setFaults(faultsOf(answer.error, view.inputs));
    setFault(answer.error);
  };
  return (
    <section class="run-form stack" aria-label="Run">
      <h2>
        Run <ForeignText text={directive} class="mono" />
      </h2>
      {view.inputs.map((input) => (
        <InputField
          key={input.name}
          input={input}
          value={fields.inputs[input.name] ?? ''}
          fault={faults[`inputs.${input.name}`]}
          onInput={(text) => change({ inputs: { ...fields.inputs, [input.name]: text } })}
        />
      ))}
      <label class="field wide">
        <span>message</span>
        <textarea
          rows={2}
          placeholder="message to the model, in your words"
          value={fields.message}
          onInput={(event) => change({ message: event.currentTarget.value })}
        />
      </label>
      <FilePicker files={files} onChange={setFiles} />
      <details
        class="run-more"
        {...(Object.keys(faults).some((name) => /^(?:limits|model)/.test(name))
          ? { open: true }
          : {})}
      >
        <summary>Model and limits; limits can only be lowered</summary>
        <label class="field">
          <span>model</span>
          <input
            type="text"
            list="known-models"
            placeholder="default"
            autoComplete="off"
            value={fields.model}
            onInput={(event) => change({ model: event.currentTarget.value })}
          />
        </label>
        <datalist id="known-models">
          {view.models.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <div class="run-limits">
          {view.limits.map((limit) => (
            <LimitField
              key={limit.name}
              limit={limit}
              value={fields.limits[limit.name] ?? ''}
              fault={faults[`limits.${limit.name}`]}
              onInput={(text) => change({ limits: { ...fields.limits, [limit.name]: text } })}
            />
          ))}
        </div>
      </details>
      <AtMost view={view} fields={fields} />
      {fault ? <ErrorState error={fault} /> : null}
      {reason === undefined ? null : <p class="dim">{reason}</p>}
      <div class="run-acts">
        {'wish' in read ? <Command text={runCommand(read.wish)} /> : <span />}
        <Button text="Close" onClick={onClose} />
        <Button
          text={isBusy ? 'Starting…' : 'Run'}
          class="btn go"
          disabled={isBusy || reason !== undefined}
          onClick={() => void run()}
        />
      </div>
    </section>
  );
}
