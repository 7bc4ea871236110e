// How a command ends, for whoever called it; scripts that run elsewhere end in the same way.
export { EXIT, exitCodeOf } from '../../base/index.ts';
