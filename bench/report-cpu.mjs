// Preloaded into a measured process: says at its end how much CPU it used.
process.on('exit', () => {
  const { user, system } = process.cpuUsage();
  const { maxRSS } = process.resourceUsage();
  process.stderr.write(`\ncpu-micros ${user + system} peak-kilobytes ${maxRSS}\n`);
});
