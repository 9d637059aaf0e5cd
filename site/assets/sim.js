// The simulator, in a worker, so that the page never waits for it.

// A Simulator simulates one scenario after the other. While it is at one, the newest waits, and those between are left
// out. One that takes too long is given up, and earlier if another waits.
export class Simulator {
  #base;
  #worker = null;
  #job = null; // at work
  #next = null;
  #last = 0;

  constructor(base, onReady = () => {}) {
    this.#base = base;
    this.onReady = onReady;
  }

  // run returns a promise of { figures, took }, or of null if a newer scenario has taken its place.
  run(text, name = "scenario.yaml") {
    return new Promise((resolve, reject) => {
      this.#next?.resolve(null);
      this.#next = { id: ++this.#last, text, name, resolve, reject };
      this.#watch();
      this.#begin();
    });
  }

  #begin() {
    if (this.#job || !this.#next) return;
    if (!this.#worker) this.#start();
    this.#job = this.#next;
    this.#next = null;
    const { id, text, name } = this.#job;
    this.#worker.postMessage({ id, text, name });
    this.#watch();
  }

  #watch() {
    const job = this.#job;
    if (!job || !this.ready) return;
    job.began ??= performance.now();
    clearTimeout(job.timer);
    job.timer = setTimeout(() => this.#fail(new Error("the scenario takes longer than 20 s: weirlab sim is faster")),
      job.began + (this.#next ? 3_000 : 20_000) - performance.now());
  }

  #start() {
    this.ready = false;
    this.#worker = new Worker(this.#base + "worker.js");
    this.#worker.onerror = (e) => this.#fail(new Error(e.message || "the simulator did not load"));
    this.#worker.onmessage = ({ data }) => {
      if (data.ready) {
        this.ready = true;
        this.onReady(data.ready);
        this.#watch();
        return;
      }
      if (data.broken) return this.#fail(new Error(data.broken));
      const job = this.#end();
      if (data.error) job.reject(new Error(data.error));
      else job.resolve(data);
      this.#begin();
    };
  }

  #end() {
    const job = this.#job;
    this.#job = null;
    clearTimeout(job?.timer);
    return job;
  }

  #fail(error) {
    this.#worker?.terminate();
    this.#worker = null;
    const job = this.#end();
    if (this.#next) job?.resolve(null);
    else job?.reject(error);
    this.#begin();
  }
}
