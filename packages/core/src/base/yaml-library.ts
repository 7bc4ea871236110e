// The used exports of the YAML library. The build bundles them into one file, because finding the
// library's seventy files takes longer than running them.
export {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  stringify,
} from 'yaml';
