// The writer of a thread that happens again. Other threads and people do nothing in a replay: what they did is in
// the recorded journal. The store of the replay gives it at the place where it was, when the writer asks.
import { JournalWriter } from '../thread/journal-writer.ts';

export class ReplayJournal extends JournalWriter {
  /** Records what others did at this place, and reads the signals that were sent there. */
  override async catchUp(): Promise<void> {
    await this.flush();
    await this.listen();
  }
}
