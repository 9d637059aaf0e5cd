fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = std::env::var("WEIR_API").unwrap_or("../../../api".into());
    println!("cargo:rerun-if-env-changed=WEIR_API");
    let files = protox::compile(["weir/v1/weir.proto"], [api])?;
    tonic_prost_build::configure().build_server(false).compile_fds(files)?;
    Ok(())
}
