// Field for files that go to the model with a message. Files can also be dropped on a form.
import { Button } from './button.tsx';
import { ForeignText } from './untrusted-text.tsx';

/** Returns the handlers of an element on which files can be dropped. */
export const onFiles = (take: (files: readonly File[]) => void) => ({
  // A browser drops only where this event is handled.
  onDragOver: (event: DragEvent) => event.preventDefault(),
  onDrop(event: DragEvent) {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    take(files);
  },
});

export function FilePicker(props: {
  files: readonly File[];
  onChange: (files: readonly File[]) => void;
}) {
  const { files, onChange } = props;
  return (
    <div class="stack small">
      <label class="stack">
        <span>Files: images, PDF or text</span>
        <input
          type="file"
          multiple
          onChange={(event) => {
            onChange([...files, ...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = '';
          }}
        />
      </label>
      {files.map((file) => (
        <span key={file} class="faint">
          <Button onClick={() => onChange(files.filter((one) => one !== file))}>
            Remove <ForeignText text={file.name} />
          </Button>{' '}
          ({file.size} bytes)
        </span>
      ))}
    </div>
  );
}
