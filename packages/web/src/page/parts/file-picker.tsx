// Field for files that go to the model with a message.
import { ForeignText } from './untrusted-text.tsx';

export function FilePicker(props: {
  files: readonly File[];
  onChange: (files: readonly File[]) => void;
}) {
  const { files, onChange } = props;
  return (
    <label class="stack small">
      <span>Files: images, PDF or text</span>
      <input
        type="file"
        multiple
        onChange={(event) => onChange([...(event.currentTarget.files ?? [])])}
      />
      {files.map(({ name, size }) => (
        <span key={name} class="faint">
          <ForeignText text={name} /> ({size} bytes)
        </span>
      ))}
    </label>
  );
}
