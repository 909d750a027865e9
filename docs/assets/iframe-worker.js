// Browsers start no worker for pages opened from the disk, and the search runs in one: there, a hidden frame stands in.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      this.waiting = [];
      this.heard = (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      };
      window.addEventListener("message", this.heard);
      const start = () => {
        document.body.append(this.frame);
        const inside = this.frame.contentDocument;
        const shim = inside.createElement("script");
        shim.textContent =
          "postMessage = (data) => parent.postMessage(data, '*');" +
          "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {" +
          "const s = document.createElement('script'); s.src = url; s.onload = done; s.onerror = failed;" +
          "document.body.append(s); })), Promise.resolve());";
        const script = inside.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = () => {
          const held = this.waiting;
          this.waiting = null;
          for (const data of held) this.postMessage(data);
        };
        inside.body.append(shim, script);
      };
      if (document.body) start();
      else document.addEventListener("DOMContentLoaded", start);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data, source: window }));
    }
    terminate() {
      window.removeEventListener("message", this.heard);
      this.frame.remove();
    }
  };
}
