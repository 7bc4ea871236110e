// Preloaded into a measured process. Prints the CPU time of the process at its end.
process.on('exit', () => {
  const { user, system } = process.cpuUsage();
  const { maxRSS } = process.resourceUsage();
  process.stderr.write(`\ncpu-micros ${user + system} peak-kilobytes ${maxRSS}\n`);
});
