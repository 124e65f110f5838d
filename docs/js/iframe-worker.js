// Search where the guide is opened from the disk. Browsers start no worker there, so the search's runs in a hidden frame.
// The theme asks for a global class of this name, and looks for the frame's script to find its word lists.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.frame = document.createElement("iframe")
    this.frame.hidden = true
    document.body.appendChild(this.frame)
    const inner = this.frame.contentWindow
    this.ready = new Promise((done) => (this.frame.onload = done))
    inner.document.open()
    inner.document.write(`<!DOCTYPE html><html><body><script src="${url}"><\/script></body></html>`)
    inner.importScripts = (...urls) =>
      urls.reduce((before, one) => before.then(() => load(inner.document, one)), Promise.resolve())
    inner.postMessage = (data) => this.answer(data)
    inner.document.close()
  }

  answer(data) {
    const event = new MessageEvent("message", { data })
    this.dispatchEvent(event)
    if (this.onmessage) this.onmessage(event)
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
  }

  terminate() {
    this.frame.remove()
  }
}

function load(page, url) {
  return new Promise((done, failed) => {
    const script = page.createElement("script")
    script.src = url
    script.onload = done
    script.onerror = failed
    page.body.appendChild(script)
  })
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
