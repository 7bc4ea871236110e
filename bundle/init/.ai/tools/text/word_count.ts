export function wordCount({ text }: { text: string }) {
  const words = text.match(/\S+/g) ?? [];
  const lines = text === '' ? 0 : text.replace(/\n$/, '').split('\n').length;
  return { words: words.length, lines };
}
