// What we use of the YAML library. The build puts it into one file: the library's own seventy cost
// more to find than to run.
export {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  stringify,
} from 'yaml';
