// Exports the used parts of the YAML library. The build bundles them into one file, because finding the
// seventy files of the library takes longer than running them.
export {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  stringify,
} from 'yaml';
