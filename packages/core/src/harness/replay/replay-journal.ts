// Writes the journal of a replayed thread. Other threads and people do nothing in a replay. The store of the replay
// returns their recorded events at the recorded position, when the writer asks for them.
import { JournalWriter } from '../thread/journal-writer.ts';

export class ReplayJournal extends JournalWriter {
  /** Records the events of others at this position, and reads the signals that arrived here. */
  override async catchUp(): Promise<void> {
    await this.flush();
    await this.listen();
  }
}
